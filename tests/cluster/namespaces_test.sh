#!/usr/bin/env bash
# Two hosts, as network namespaces with a link between them: `penstock train` (the argument) with TLS has the variables
# of one process, refuses to be reached without TLS, and names who was lost when the link goes down.
set -euo pipefail
program=$1
for needed in ip openssl; do
  command -v $needed >/dev/null || { echo "skipped: $needed is not installed"; exit 77; }
done
folder=$(mktemp -d)
a=penstock-a-$$ b=penstock-b-$$
end() {
  jobs -p | xargs -r kill -9 2>/dev/null || true
  ip netns del $a 2>/dev/null || true
  ip netns del $b 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
cd "$folder"
ip netns add $a 2>/dev/null || { echo "skipped: no network namespace can be made here"; exit 77; }
ip netns add $b
ip link add psa$$ type veth peer name psb$$
ip link set psa$$ netns $a
ip link set psb$$ netns $b
ip netns exec $a ip addr add 10.77.0.1/24 dev psa$$
ip netns exec $b ip addr add 10.77.0.2/24 dev psb$$
for host in "$a psa$$" "$b psb$$"; do
  read -r name link <<<"$host"
  ip netns exec "$name" ip link set "$link" up
  ip netns exec "$name" ip link set lo up
done

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2>/dev/null
for rank in 0 1; do
  echo "subjectAltName=IP:10.77.0.$((rank + 1))" >names
  openssl req -newkey rsa:2048 -nodes -subj /CN=rank -keyout $rank.key -out $rank.csr 2>/dev/null
  openssl x509 -req -in $rank.csr -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out $rank.pem 2>/dev/null
done
echo "the job's" >token
for i in {0..39}; do  # records of CIFAR-10
  printf '%b' "\\x$((i % 10))"
  head -c 3072 /dev/urandom
done >data.bin

train=("$program" train --model cifar10 --data data.bin --batch 4 --quiet --schedule constant:0.01)
# rank NAMESPACE RANK FLAGS...
rank() {
  # shellcheck disable=SC2086 # flags, or none
  ip netns exec "$1" env RANK="$2" WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=5555 timeout -s KILL 60 "${train[@]}" \
    --device host:0 $over --peer-timeout 3 \
    --tls-cert "$2.pem" --tls-key "$2.key" --tls-ca ca.pem --token-file token "${@:3}"
}
fail() {
  printf 'failed: %s\n' "$1"
  tail -n 5 ./*.out
  exit 1
}

plain() {  # gradients go over the link of that name as they are
  over="--exchange-interface $1 --insecure-exchange"
}

one=$("${train[@]}" --device host:0,host:1 --deterministic --json - | grep variables_digest)
for how in encrypted plain; do
  over=
  [ $how = encrypted ] || plain psb$$
  rank $b 1 --deterministic >1.out 2>&1 &
  [ $how = encrypted ] || plain psa$$
  two=$(rank $a 0 --deterministic --json - 2>0.out | grep variables_digest) || fail "rank 0 has no digest"
  wait $! || fail "rank 1"
  [ "$one" = "$two" ] || fail "one process has $one, two hosts have $two"
  echo "two hosts have the bits of one process, $how"
done

result=0
ip netns exec $a env RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=5555 "${train[@]}" --device host:0 >0.out 2>&1 ||
  result=$?
[ $result = 2 ] || fail "without TLS: $result"
grep -q -- --tls-cert 0.out || fail "what is missing is not said"
echo "without TLS no process listens"

plain psa$$
rank $a 0 --epochs 100000 --checkpoint kept --checkpoint-every 3 >0.out 2>&1 &
first=$!
plain psb$$
rank $b 1 --epochs 100000 --checkpoint kept --checkpoint-every 3 >1.out 2>&1 &
second=$!
for _ in {1..300}; do  # until it is in the middle of its steps
  [ -z "$(find kept -name '*.safetensors' 2>/dev/null)" ] || break
  sleep 0.1
done
kill -0 $first $second || fail "training"
ip netns exec $a ip link set psa$$ down
for job in $first $second; do
  result=0
  wait "$job" || result=$?
  [ $result = 75 ] || fail "without a link: $result"
done
grep -q "rank 1 was lost" 0.out || fail "rank 0 names nobody"
grep -q "rank 0 at 10.77.0.1:5555 was lost" 1.out || fail "rank 1 names nobody"
echo "without a link each names the other"
