# shellcheck shell=bash
# What the tests of launchers share; to be sourced.

# end_jobs: ends what this shell has in the background. Slurm's daemons may not answer a SIGTERM for as long as they
# wait for a node, so that it waits no more than five seconds.
end_jobs() {
  local left signal
  for signal in TERM KILL; do
    for _ in {1..50}; do
      left=$(jobs -rp)
      [ -n "$left" ] || return 0
      # shellcheck disable=SC2086  # several numbers
      kill -$signal $left 2>/dev/null || true
      sleep 0.1
    done
  done
}

# free_port MANY: the first of so many ports in a row that nobody listens on, below those that the system gives away.
free_port() {
  local port used offset
  used=$(awk 'FNR > 1 && $4 == "0A" { sub(".*:", "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null || true)
  while :; do
    port=$(shuf -i 20000-29999 -n 1)
    for ((offset = 0; offset < $1; ++offset)); do
      ! grep -qixF "$(printf '%04X' $((port + offset)))" <<<"$used" || continue 2
    done
    echo "$port"
    return
  done
}

# start_slurm FOLDER: a Slurm of one node, this machine, in the background; what it keeps lies in FOLDER. 1 where it is
# not installed, this is not root, or the node does not become idle within 20 seconds; says which.
start_slurm() {
  local port state=unknown
  if ! command -v slurmctld >/dev/null || ! command -v slurmd >/dev/null; then
    echo "Slurm: skipped, Debian's slurm-wlm is not installed"
    return 1
  elif [ "$(id -u)" != 0 ]; then
    echo "Slurm: skipped, this is not root"
    return 1
  fi
  port=$(free_port 2)
  cat >"$1/slurm.conf" <<END
ClusterName=test
SlurmctldHost=localhost
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$1
SlurmdSpoolDir=$1
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
NodeName=localhost CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE
END
  export SLURM_CONF=$1/slurm.conf
  slurmctld -D -c >/dev/null 2>&1 &
  slurmd -D -N localhost >/dev/null 2>&1 &
  for _ in {1..100}; do
    state=$(timeout 5 sinfo -h -o %T 2>/dev/null || true)
    [ "$state" != idle ] || return 0
    sleep 0.2
  done
  echo "Slurm: skipped, its node is ${state:-unknown}, not idle"
  return 1
}
