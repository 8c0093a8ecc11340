#!/usr/bin/env bash
#SBATCH --job-name=cifar
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120
# A run of training on the nodes of a Slurm job, with an evaluator on one core of the first. `sbatch deploy/slurm.sh`, with
# PENSTOCK_DATA, PENSTOCK_KEPT and PENSTOCK_SECRETS as folders that all nodes see. Two minutes before the time limit Slurm
# sends SIGTERM: all ranks write a checkpoint and stop. The job is queued again and resumes from it. If a rank is lost,
# all others exit with code 75, and the job is queued again as well.
set -euo pipefail

data=${PENSTOCK_DATA:?the folder of cifar10-train.tar and cifar10-test.tar}
kept=${PENSTOCK_KEPT:?the folder for checkpoints and exports}
secrets=${PENSTOCK_SECRETS:?the folder of tls.crt, tls.key, ca.crt and token, readable by the user alone}
cores=${SLURM_CPUS_PER_TASK:-8}

common=(--model cifar10 --checkpoint "$kept/checkpoints" --epochs 8
  --tensorboard "$kept/events" --quiet)

# A step of its own: the evaluator and the training ranks do not wait for each other.
srun --nodes=1 --ntasks=1 --cpus-per-task=1 --overlap \
  penstock train "${common[@]}" --role evaluator --tower-threads 1 \
  --eval-data "$data/cifar10-test.tar" --export-best "$kept/best.safetensors" &
evaluator=$!

status=0
srun --ntasks="${SLURM_NTASKS:?is this no Slurm job}" --cpus-per-task="$((cores - 1))" --kill-on-bad-exit=0 \
  penstock train "${common[@]}" --data "$data/cifar10-train.tar" --device host:0 --tower-threads "$((cores - 1))" \
  --export "$kept/last.safetensors" --checkpoint-every 200 --join-timeout 600 \
  --tls-cert "$secrets/tls.crt" --tls-key "$secrets/tls.key" --tls-ca "$secrets/ca.crt" \
  --token-file "$secrets/token" || status=$?

# Training that was stopped by the signal ends with 0, too, but has not written `finished`.
if [ "$status" -eq 75 ] || { [ "$status" -eq 0 ] && [ ! -e "$kept/checkpoints/finished" ]; }; then
  kill "$evaluator" 2>/dev/null || true
  scontrol requeue "$SLURM_JOB_ID"
  exit 75
fi
[ "$status" -eq 0 ] || kill "$evaluator" 2>/dev/null || true
wait "$evaluator" || true
exit "$status"
