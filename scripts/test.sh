#!/bin/sh
# Runs the tests from scratch: makes .venv, installs with torch and transformers, lints, checks types, tests.
#   sh scripts/test.sh                      runs the quick tests, with a sixth of their rows, always the same
#   sh scripts/test.sh quick tests/nn       runs those of a folder only, and neither lints nor checks types
#   sh scripts/test.sh -m "not slow"        runs the quick tests with all rows; scripts/verify.sh runs all tests
#   sh scripts/test.sh tests/nn -k linear   passes arguments to pytest, and runs nothing else
set -- test "$@"
. "$(dirname "$0")/environment.sh"
shift
cd "$root"
export PYTHONDONTWRITEBYTECODE= # the processes that tests start would compile the package anew, each in seconds

if [ $# -eq 0 ]; then
  ruff check .
  ruff format --check .
  mypy
  set -- quick -n 2 --dist worksteal --durations 10 --disable-warnings
fi
if [ "$1" = quick ]; then
  shift
  set -- -m "not slow" "$@"
  # Optimization takes half of the time of these many small programs; scripts/verify.sh tests the layers with it.
  export JAX_DISABLE_MOST_OPTIMIZATIONS=1
  export FUNCNET_ROWS="${FUNCNET_ROWS:-6}"
  # Compiling is more than half of the time. Later runs, in this clone or another, find what an earlier one compiled.
  export JAX_COMPILATION_CACHE_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/funcnet/test-programs"
  export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
fi
exec python -m pytest "$@"
