#!/bin/sh
# Builds the reference of funcnet as pages with search: makes .venv, installs, runs the examples, checks all links.
#   sh scripts/reference.sh                 writes to build/reference; open build/reference/index.html
#   sh scripts/reference.sh --out DIR       writes to another folder, which it replaces
#   sh scripts/reference.sh --no-examples   does not run the examples of the docstrings
set -- reference "$@"
. "$(dirname "$0")/environment.sh"
shift
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} # for the modules of scripts/
export PYTHONPATH
exec python -P -m scripts.reference.build "$@"
