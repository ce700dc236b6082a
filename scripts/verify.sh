#!/bin/sh
# Runs the tests that take too long for the gate, whole, by area.
#   sh scripts/verify.sh                    all areas
#   sh scripts/verify.sh layers runs        these areas
set -eu
cd "$(dirname "$0")/.."
areas="databases layers data runs models bridges docs oldest newest"
export FUNCNET_REAL_DATA=required # a test of real texts or weights fails if they could not be fetched

rest() { sh scripts/test.sh -n 2 --dist worksteal -m "slow or table" --disable-warnings "$@"; }

databases() {
  coverage=$(mktemp -d)
  FUNCNET_COVERAGE="$coverage" JAX_DISABLE_MOST_OPTIMIZATIONS=1 rest tests/database tests/functional tests/nn/test_layers.py
  .venv/bin/python -m tests.database coverage "$coverage" --check
}
layers() { JAX_DISABLE_MOST_OPTIMIZATIONS=1 rest tests/functional tests/nn; }
data() { rest tests/data tests/text tests/tasks/pretraining_data; }
runs() { rest tests/train tests/parallel tests/tasks --ignore tests/tasks/pretraining_data; }
models() { rest tests/models tests/heads tests/weights tests/serving; }
bridges() { rest tests/bridges; }
docs() { rest tests/test_notebooks.py tests/test_benchmarks.py tests/test_readme.py; }
oldest() {
  environment python3 "jax==0.10.0 jaxlib==0.10.0" "torch==2.13.0" "test"
  # Optimized, as users run it: every layer, the parallel step. The other parts call the same functions of JAX.
  "$venv/bin/python" -m pytest -n 2 --dist worksteal -m "not slow" tests/nn/test_layers.py tests/parallel
}
newest() {
  python=python3
  for candidate in python3.12 python3.13 python3.14 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then python=$candidate; fi
  done
  environment "$python" "jax pytest pytest-xdist hypothesis scikit-learn tensorboard nbclient" "" "demo"
  "$venv/bin/python" -m pytest -n 2 --dist worksteal -m "not slow" tests/nn tests/train # those that need no torch
  "$venv/bin/funcnet" pretrain --out "$venv/run" --steps 40 --evaluate-every 20
}
environment() { # interpreter, requirements, what is installed before them, extras
  venv=$(mktemp -d)
  "$1" -m venv "$venv"
  [ -z "$3" ] || "$venv/bin/python" -m pip install --quiet $3
  "$venv/bin/python" -m pip install --quiet $2 -e ".[$4]"
  "$venv/bin/python" -c 'import sys, jax; print("Python", sys.version.split()[0], "JAX", jax.__version__)'
}

for area in ${@:-$areas}; do
  case " $areas " in
    *" $area "*) echo "== $area" && "$area" ;;
    *) echo "verify.sh: $area is no area; expected some of: $areas" >&2 && exit 2 ;;
  esac
done
