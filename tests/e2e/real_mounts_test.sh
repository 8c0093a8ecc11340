#!/usr/bin/env bash
# `penstock` (the first argument) on real mounts: s3fs over moto, sshfs over an sshd on loopback, and tmpfs, while the kernel
# forgets the nodes of files, which gives them other inode numbers. All that a local folder gives, these give. Runs as
# root in namespaces of its own.
set -euo pipefail
program=$1
wanted=${*:2}
wanted=${wanted:-tmpfs sshfs s3fs}
export PATH=$PATH:/usr/sbin
if [ -z "${PENSTOCK_ALONE_HERE:-}" ]; then
  [ -w /dev/fuse ] || { echo "skipped: no /dev/fuse"; exit 77; }
  unshare --net --mount --pid --fork true 2>/dev/null || { echo "skipped: no namespaces can be made here"; exit 77; }
  PENSTOCK_ALONE_HERE=1 exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$program" "${@:2}"
fi
folder=$(mktemp -d)
end() {
  for name in s3fs sshfs tmpfs; do umount -l "$folder/$name" 2>/dev/null || true; done
  jobs -p | xargs -r kill -9 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
export HOME=$folder XDG_CACHE_HOME=$folder/cache AWS_EC2_METADATA_DISABLED=true
ip link set lo up
fail() {
  echo "$mount: $1" >&2
  tail -n 20 out >&2
  exit 1
}
run() { timeout -s KILL 300 "$program" "$@" >out 2>&1; }
# until_ready PORT
until_ready() {
  for _ in {1..1000}; do
    if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then return; fi
    sleep 0.02
  done
  echo "nothing listens on port $1" >&2
  exit 1
}
# Makes the kernel forget nodes and pages that are not in use, until it is killed.
forget() {
  while true; do
    echo 3 >/proc/sys/vm/drop_caches
    sleep 0.3
  done
}

mount_s3fs() {
  moto_server -H 127.0.0.1 -p 4001 >moto.log 2>&1 &
  until_ready 4001
  curl -s -X PUT http://127.0.0.1:4001/bucket >curl.log
  echo A:S >passwd && chmod 600 passwd
  s3fs bucket "$folder/s3fs" -o "passwd_file=$folder/passwd,url=http://127.0.0.1:4001,use_path_request_style"
}
mount_sshfs() {
  mkdir -p /run/sshd served
  ssh-keygen -q -t ed25519 -N '' -f host
  ssh-keygen -q -t ed25519 -N '' -f user
  cp user.pub authorized && chmod 600 authorized
  cat >sshd.conf <<EOF
Port 4002
ListenAddress 127.0.0.1
HostKey $folder/host
AuthorizedKeysFile $folder/authorized
PidFile none
StrictModes no
PermitRootLogin yes
UsePAM no
Subsystem sftp internal-sftp
EOF
  "$(command -v sshd)" -D -f sshd.conf -E sshd.log &
  until_ready 4002
  sshfs "root@127.0.0.1:$folder/served" "$folder/sshfs" -p 4002 \
    -o "IdentityFile=$folder/user,StrictHostKeyChecking=no,UserKnownHostsFile=$folder/known"
}
mount_tmpfs() { mount -t tmpfs tmpfs tmpfs; }

images_count=${PENSTOCK_MOUNT_IMAGES:-180}
run synth data --images "$images_count" --size 40x50 --seed 3
run synth tars --format tar --images "$images_count" --size 40x50 --seed 3 --shards 3
images=(--decode --resize 32x32 --shuffle --batch 12 --epochs 2 --seed 1 --quiet --json -)
digest() { sed -n 's/.*"digest": *"\?\([^",]*\).*/\1/p' out; }
mount=local
run profile --images data "${images[@]}" || fail "images"
want_images=$(digest)
run profile --tar "tars/*.tar" "${images[@]}" || fail "tars"
want_tars=$(digest)
run pack --images data --jpeg coefficients --out local.pnr || fail "pack"
train=(train --model cifar10 --batch 12 --deterministic --seed 5 --quiet --schedule constant:0.01)
run "${train[@]}" --data data --epochs 2 --export local.safetensors || fail "train"

on_mount() {
  mount=$1
  mkdir "$mount"
  "mount_$mount" || fail "can't mount"
  # Some mounts are there a moment later.
  for _ in {1..500}; do
    if mountpoint -q "$mount"; then break; fi
    sleep 0.02
  done
  cp -r data tars "$mount/"
  forget &
  local forgetting=$!
  for policy in fail skip retry; do
    run profile --images "$mount/data" "${images[@]}" --on-error $policy || fail "images, $policy"
    [ "$(digest)" = "$want_images" ] || fail "images, $policy: another digest"
    run profile --tar "$mount/tars/*.tar" "${images[@]}" --on-error $policy || fail "tars, $policy"
    [ "$(digest)" = "$want_tars" ] || fail "tars, $policy: another digest"
  done
  # A state on the mount, over data on the mount.
  local part
  rm -f digests
  for part in "--batches 5" "--batches 9" ""; do
    # shellcheck disable=SC2086
    run profile --images "$mount/data" "${images[@]}" --state "$mount/state" --save-every 1 --digests digests $part ||
      fail "state $part"
  done
  [ "$(wc -l <digests)" -ge $((images_count / 6)) ] || fail "digests of $(wc -l <digests) batches"
  local kind
  for kind in --cache --snapshot; do
    for _ in 1 2; do
      run profile --images "$mount/data" --decode --resize 32x32 $kind "$mount/kept$kind" --batch 12 --epochs 2 --quiet \
        --json - || fail "$kind"
      grep -q '"count": 0' out || fail "$kind: errors"
    done
  done
  run pack --images "$mount/data" --jpeg coefficients --out "$mount/x.pnr" || fail "pack"
  cmp local.pnr "$mount/x.pnr" || fail "pack: other bytes"
  run "${train[@]}" --data "$mount/data" --epochs 2 --checkpoint "$mount/kept" --checkpoint-every 7 --max-steps 11 ||
    fail "train"
  run "${train[@]}" --data "$mount/data" --epochs 2 --checkpoint "$mount/kept" --checkpoint-every 7 \
    --export resumed.safetensors || fail "train on"
  cmp local.safetensors resumed.safetensors || fail "train: other variables"
  # Killed, and done again. What is left over is small, and gone afterwards.
  local at
  for at in 0.05 0.1 0.2; do
    rm -f "$mount/killed.pnr"
    timeout -s KILL $at "$program" pack --images "$mount/data" --jpeg coefficients --out "$mount/killed.pnr" >out 2>&1 || true
    run pack --images "$mount/data" --jpeg coefficients --out "$mount/killed.pnr" || fail "pack after a kill"
    cmp local.pnr "$mount/killed.pnr" || fail "pack after a kill: other bytes"
  done
  kill $forgetting
  # Two at once: one output, whole.
  "$program" pack --images "$mount/data" --jpeg coefficients --out "$mount/both.pnr" >one 2>&1 &
  local one=$! codes=0
  run pack --images "$mount/data" --jpeg coefficients --out "$mount/both.pnr" || codes=$((codes + 1))
  wait $one || codes=$((codes + 1))
  [ $codes -lt 2 ] || fail "both failed: $(cat one)"
  cmp local.pnr "$mount/both.pnr" || fail "two at once: other bytes"
  # A file that is really another ends the run, whatever the policy.
  local victim
  for policy in fail skip retry; do
    rm -rf "$mount/changing" && cp -r data "$mount/changing"
    "$program" profile --images "$mount/changing" --decode --resize 32x32 --batch 4 --step-ms 20 --threads 1 --epochs 30 \
      --quiet --on-error $policy >out 2>&1 &
    one=$!
    sleep 1
    # Each is another at once. s3fs shows a file that is being written with its former size and time.
    find "$mount/changing" -name '*.jpg' | while read -r victim; do
      head -c 700 /dev/zero >"$mount/new"
      mv "$mount/new" "$victim"
    done
    if wait $one; then fail "changed files, $policy: exit code 0"; fi
    grep -q "changed since it was found" out || fail "changed files, $policy: another error"
  done
  # shellcheck disable=SC2010
  if ls -a "$mount" | grep -E 'partial|tmp'; then fail "left over"; fi
  echo "passed: $mount"
}

for name in $wanted; do
  case $name in
    s3fs) needed='s3fs moto_server curl' ;;
    sshfs) needed='sshfs sshd ssh-keygen' ;;
    *) needed=mount ;;
  esac
  # shellcheck disable=SC2086
  if command -v $needed >which 2>&1 && [ "$(wc -l <which)" -eq "$(wc -w <<<"$needed")" ]; then
    on_mount "$name"
  else
    echo "NOT TESTED: $name needs $needed"
  fi
done
