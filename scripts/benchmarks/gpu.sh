#!/bin/sh
# On a machine with a GPU: pretrains BERT-base, compares its step with bare JAX, and tests the functions and layers.
#   sh scripts/benchmarks/gpu.sh RESULTS    writes a log of each part to the folder RESULTS
# The interpreter (PYTHON, by default python3) needs JAX with its plugin for the GPU, torch, pytest and pytest-xdist.
# A test that needs several devices is left out.
set -u
results=$1
python=${PYTHON:-python3}
work=$(mktemp -d)
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root" || exit
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
part() { # name, seconds, command
  log=$results/$1.log seconds=$2
  shift 2
  start=$(date +%s)
  timeout -s INT -k 10 "$seconds" "$@" >"$log" 2>&1
  echo "== $log: exit code $? after $(($(date +%s) - start)) s"
}
funcnet() { echo "$python -c 'from funcnet.cli import main; main()' $*"; }

nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
"$python" -c 'import jax; print("JAX", jax.__version__, jax.devices())'
base="--model base --precision bfloat16 --seq-len 128 --steps 60 --log-every 10 --evaluate-every 60"
part base 200 sh -c "$(funcnet pretrain --out "$work/base" $base --batch-size 256)"
"$python" - "$work/base/metrics.jsonl" <<'PYTHON'
import json, sys

layers, width, vocabulary, length, masked = 12, 768, 30522, 128, 20 / 128
encoder = 12 * layers * width**2
a_token = 6 * encoder + 12 * layers * width * length + 6 * (width**2 + width * vocabulary) * masked
rates = [json.loads(line)["tokens_per_second"] for line in open(sys.argv[1])]
for rate in rates:
    print(f"{rate:,.0f} tokens/s, {rate * a_token / 1e12:.0f} TFLOP/s, {rate * a_token / 989e12:.1%} of an H100's bf16 peak")
PYTHON
part step 120 "$python" scripts/benchmarks/step.py --pairs 20
tail -n 12 "$results/step.log"
export JAX_PLATFORMS=cuda,cpu XLA_PYTHON_CLIENT_PREALLOCATE=false FUNCNET_ROWS=6
part tests 240 "$python" -m pytest -n 10 --dist worksteal -m "not slow" --tb line -rfE --disable-warnings \
  tests/nn/test_layers.py tests/functional tests/optim tests/test_random.py tests/models/bert/test_model.py
tail -n 60 "$results/tests.log" | cut -c1-300
