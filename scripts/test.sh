#!/bin/sh
# Runs the tests from scratch: makes .venv, installs with torch and transformers, lints, checks types, tests.
#   sh scripts/test.sh                      runs all tests except the slow ones, and a third of the rows of long tables
#   sh scripts/test.sh -m "not slow"        runs all rows of the tables; -m slow runs the slow tests
#   sh scripts/test.sh tests/nn -k linear   passes arguments to pytest, and runs nothing else
set -- test "$@"
. "$(dirname "$0")/environment.sh"
shift
cd "$root"

if [ $# -eq 0 ]; then
  ruff check .
  ruff format --check .
  mypy
  set -- -n 2 --dist worksteal -m "not slow"
  # Optimization takes half of the time of these many small programs; .ci/run also tests the layers with it.
  export JAX_DISABLE_MOST_OPTIMIZATIONS=1
  export FUNCNET_TABLES="${FUNCNET_TABLES:-3}" # one row in three, drawn by the commit
  # Compiling is more than half of the time. The second run finds what the first one compiled.
  export JAX_COMPILATION_CACHE_DIR="$venv/share/jax-programs"
  export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
fi
exec python -m pytest "$@"
