#!/bin/sh
# The tests, from nothing: makes .venv, installs with the oracles (torch, transformers), lints, checks types, tests.
#   sh scripts/test.sh                      all but the slow ones
#   sh scripts/test.sh tests/nn -k linear   extra arguments go to pytest, and only pytest runs
set -- test "$@"
. "$(dirname "$0")/environment.sh"
shift
cd "$root"

if [ $# -eq 0 ]; then
  ruff check .
  ruff format --check .
  mypy
  set -- -n 2 --dist worksteal -m "not slow"
  # Half of the time of so many small programs is their optimization; .ci/run has the same tests of layers with it.
  export JAX_DISABLE_MOST_OPTIMIZATIONS=1
fi
exec python -m pytest "$@"
