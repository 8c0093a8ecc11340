#!/usr/bin/env bash
# `penstock cluster` (the argument) below real launchers, those that are installed: each process knows its rank, all
# reach rank 0, and unless OFF is the second argument, meet there.
set -euo pipefail
program=$1
meet=${2:-ON}
folder=$(mktemp -d)
# shellcheck source=tests/cluster/launching.sh
. "$(dirname "$0")/launching.sh"
end() {
  end_jobs
  rm -rf "$folder"
}
trap end EXIT

# expect LAUNCHER OUTPUT: three ranks that met.
expect() {
  local line reached
  for line in "rank 0 of 3, on this host 0 of 3" "rank 1 of 3, on this host 1 of 3" \
    "rank 2 of 3, on this host 2 of 3" "said by     $1"; do
    grep -qF "$line" <<<"$2" || { printf '%s: not found: %s\n%s\n' "$1" "$line" "$2"; exit 1; }
  done
  reached=$(grep -c "^rank 0 at 127.0.0.1:[0-9]*: reached$" <<<"$2" || true)
  [ "$reached" = 2 ] || { printf '%s: %s of 2 reached rank 0\n%s\n' "$1" "$reached" "$2"; exit 1; }
  printf '%s: 3 processes met\n' "$1"
}

# met LAUNCHER OUTPUT
met() {
  local count
  count=$(grep -c "^met all 3 ranks, of one version$" <<<"$2" || true)
  [ "$count" = 3 ] || { printf '%s: %s of 3 met\n%s\n' "$1" "$count" "$2"; exit 1; }
}

ran=0
if command -v mpirun >/dev/null; then
  expect "Open MPI" "$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
    mpirun --oversubscribe -n 3 "$program" cluster --check --timeout 5)"
  [ "$meet" = OFF ] || met "Open MPI" "$(OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
    mpirun --oversubscribe -n 3 "$program" cluster --meet --timeout 30)"
  # Without mpirun's key for a token, a process with another one would be taken for rank 2.
  if [ "$meet" != OFF ] && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 \
    mpirun --oversubscribe -n 2 "$program" cluster --meet --timeout 3 : \
    -n 1 env PENSTOCK_TOKEN=other "$program" cluster --meet --timeout 3 >"$folder/stranger" 2>&1; then
    printf 'Open MPI: a process with another token met the others\n'
    cat "$folder/stranger"
    exit 1
  fi
  ran=1
else
  echo "Open MPI: skipped, Debian's openmpi-bin is not installed"
fi

if start_slurm "$folder"; then
  expect Slurm "$(timeout 60 srun -n 3 --overcommit "$program" cluster --check --timeout 5)"
  [ "$meet" = OFF ] || met Slurm "$(timeout 60 srun -n 3 --overcommit "$program" cluster --meet --timeout 30)"
  ran=1
fi
[ $ran = 1 ] || exit 77
