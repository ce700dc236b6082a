#!/bin/sh
# Pretrains a small BERT on the default corpus from scratch: makes .venv, installs, trains, evaluates.
#   sh scripts/pretrain.sh                  writes to runs/demo; a second call continues a stopped run
#   sh scripts/pretrain.sh --steps 200 …    passes arguments to `funcnet pretrain`; writes to runs/demo-1, …
set -- demo "$@"
. "$(dirname "$0")/environment.sh"
shift

# XLA allocates its scratch memory at every step; huge pages avoid most of the page faults.
GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}
export GLIBC_TUNABLES

case " $* " in
  *" --out "* | *" --out="* | *" -h "* | *" --help "*) exec funcnet pretrain "$@" ;;
esac
out=$root/runs/demo # only for the run without arguments, so that it can always be continued
if [ "$*" = --resume ]; then shift; fi
if [ $# -eq 0 ]; then
  if [ -e "$out" ]; then set -- --resume; fi
  exec funcnet pretrain --out "$out" "$@"
fi
number=1
while [ -e "$out-$number" ]; do number=$((number + 1)); done
exec funcnet pretrain --out "$out-$number" "$@"
