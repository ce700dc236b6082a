#!/bin/sh
# Pretrains a small BERT on the default corpus, from nothing: makes .venv, installs, trains, evaluates.
#   sh scripts/pretrain.sh                  into runs/demo; run again, it continues what was cut off
#   sh scripts/pretrain.sh --steps 200 …    extra arguments go to `funcnet pretrain`; a new folder: runs/demo-1, …
set -- demo "$@"
. "$(dirname "$0")/environment.sh"
shift

# XLA allocates its scratch memory anew at every step; huge pages save most of the page faults that this costs.
GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}
export GLIBC_TUNABLES

case " $* " in
  *" --out "* | *" --out="* | *" -h "* | *" --help "*) exec funcnet pretrain "$@" ;;
esac
out=$root/runs/demo # of the run without arguments alone, so that it can always be continued
if [ "$*" = --resume ]; then shift; fi
if [ $# -eq 0 ]; then
  if [ -e "$out" ]; then set -- --resume; fi
  exec funcnet pretrain --out "$out" "$@"
fi
number=1
while [ -e "$out-$number" ]; do number=$((number + 1)); done
exec funcnet pretrain --out "$out-$number" "$@"
