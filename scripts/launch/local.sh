#!/bin/sh
# Starts N processes of one run on this machine, and ends all of them when one fails.
#   scripts/launch/local.sh 2 funcnet pretrain --out runs/two --mesh data=4
# Process I writes its messages to standard error; process 0 also prints the progress of the run.
[ $# -ge 2 ] && [ "$1" -ge 1 ] 2>/dev/null || { echo "usage: $0 N COMMAND..." >&2; exit 2; }
count=$1
shift
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
processes=
trap 'kill -TERM $processes 2>/dev/null' INT TERM
index=0
while [ "$index" -lt "$count" ]; do
  "$@" --coordinator "127.0.0.1:$port" --num-processes "$count" --process-id "$index" &
  processes="$processes $!"
  index=$((index + 1))
done
worst=0
index=0
for process in $processes; do
  code=0
  wait "$process" || code=$?
  while kill -0 "$process" 2>/dev/null; do # a signal to this script interrupted the wait
    code=0
    wait "$process" || code=$?
  done
  [ "$code" -eq 0 ] || echo "local.sh: process $index ended with exit code $code" >&2
  [ "$code" -le "$worst" ] || worst=$code
  index=$((index + 1))
done
exit "$worst"
