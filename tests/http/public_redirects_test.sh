#!/usr/bin/env bash
# A server with a public address sends `penstock` (the argument) elsewhere: to other public ones it goes, to private ones
# never, whether by address, by name or over a connection that is there. Both are in a network namespace of their own.
set -euo pipefail
program=$1
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || { echo "skipped: nginx is not installed"; exit 77; }
if [ -z "${PENSTOCK_ALONE_HERE:-}" ]; then
  unshare --net --mount true 2>/dev/null || { echo "skipped: no network namespace can be made here"; exit 77; }
  PENSTOCK_ALONE_HERE=1 exec unshare --net --mount --pid --fork --kill-child "$0" "$program"
fi
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
ip link set lo up
for address in 203.0.113.1 203.0.113.2 169.254.169.254 10.9.8.7; do ip addr add $address/32 dev lo; done
printf '%s\n' '127.0.0.1 localhost' '203.0.113.2 outside.example' '10.9.8.7 inside.example' >hosts
mount --bind hosts /etc/hosts
mkdir data logs
seq 100 >data/a.csv
chmod -R a+rwx .

cat >conf <<EOF
daemon off; master_process off; pid $folder/pid; error_log $folder/errors; events {}
http {
  client_body_temp_path $folder/t1; proxy_temp_path $folder/t2; fastcgi_temp_path $folder/t3;
  uwsgi_temp_path $folder/t4; scgi_temp_path $folder/t5;
  server {
    listen 203.0.113.1:80; access_log off; root $folder/data;
    location /public { return 302 http://203.0.113.2/a.csv; }
    location /by-name { return 302 http://outside.example/a.csv; }
    location /loopback { return 302 http://127.0.0.1/a.csv; }
    location /localhost { return 302 http://localhost/a.csv; }
    location /private { return 302 http://10.9.8.7/a.csv; }
    location /mapped { return 302 http://[::ffff:10.9.8.7]/a.csv; }
    location /number { return 302 http://168364039/a.csv; }
    location /metadata { return 302 http://169.254.169.254/a.csv; }
    location /private-by-name { return 302 http://inside.example/a.csv; }
    location /twice { return 302 http://203.0.113.2/private; }
  }
  server {
    listen 203.0.113.2:80; access_log off; root $folder/data;
    location /private { return 302 http://inside.example/a.csv; }
  }
  server {
    listen 127.0.0.1:80; listen 10.9.8.7:80; listen 169.254.169.254:80; access_log $folder/logs/private; root $folder/data;
    location /local { return 302 http://127.0.0.1/a.csv; }
    location /out { return 302 http://203.0.113.2/a.csv; }
  }
}
EOF
"$nginx" -e errors -p "$folder" -c "$folder/conf" &
for _ in {1..500}; do
  if (exec 3<>/dev/tcp/203.0.113.1/80) 2>/dev/null; then break; fi
  sleep 0.02
done

fail() {
  echo "$1" >&2
  cat out >&2
  exit 1
}
# run URL...: the same digest as from here?
run() { timeout -s KILL 60 "$program" profile --csv "$@" --batch 10 --quiet --json - >out 2>&1; }
digest() { sed -n 's/.*"digest": *"\?\([^",]*\).*/\1/p' out; }
run data/a.csv || fail "local files"
want=$(digest)
[ -n "$want" ] || fail "no digest"
for path in public by-name; do
  run http://203.0.113.1/$path || fail "/$path is not followed"
  [ "$(digest)" = "$want" ] || fail "/$path has another digest"
done
for path in loopback localhost private mapped number metadata private-by-name twice; do
  if run http://203.0.113.1/$path; then fail "/$path is followed"; fi
  grep -q "address of a private network" out || fail "/$path: another error"
done
[ ! -s logs/private ] || fail "a private server was asked: $(cat logs/private)"
for path in local out; do
  run http://10.9.8.7/$path || fail "/$path is not followed"
  [ "$(digest)" = "$want" ] || fail "/$path has another digest"
done
# A name that is private, after a connection to it was made for another file.
if run http://inside.example/a.csv http://203.0.113.1/private-by-name; then fail "a connection is used again"; fi
grep -q "address of a private network" out || fail "a connection that is there: another error"
echo "passed"
