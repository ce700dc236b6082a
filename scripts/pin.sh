#!/bin/sh
# Writes requirements/test.txt: the newest versions that pyproject.toml allows, which scripts/test.sh then installs; and
# requirements/reference.txt: what scripts/reference.sh installs in addition.
#   sh scripts/pin.sh
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
FUNCNET_PINS=0 FUNCNET_VENV="$work/venv" sh "$root/scripts/test.sh" --version
"$work/venv/bin/python" -m pip install --quiet hatchling editables # what builds the package
{
  echo "# The versions that scripts/test.sh installs, on Python 3.11. Written by scripts/pin.sh."
  "$work/venv/bin/python" -m pip freeze --exclude-editable | sed 's/+cpu$//' | sort -f
} > "$work/test.txt"
PIP_CONSTRAINT="$work/test.txt" "$work/venv/bin/python" -m pip install --quiet -e "$root[reference]"
{
  echo "# The versions that scripts/reference.sh installs besides those of test.txt. Written by scripts/pin.sh."
  "$work/venv/bin/python" -m pip freeze --exclude-editable | sed 's/+cpu$//' | sort -f | grep -vxFf "$work/test.txt"
} > "$work/reference.txt"
mv "$work/test.txt" "$work/reference.txt" "$root/requirements/"
