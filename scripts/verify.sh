#!/bin/sh
# Runs the tests that take too long for the gate, whole, by area. It skips an area that has passed on this commit.
#   sh scripts/verify.sh                    all areas
#   sh scripts/verify.sh layers runs        these areas
#   sh scripts/verify.sh changed            the areas that the commits since origin/main reach
#   sh scripts/verify.sh --help             the areas, and the folders that each covers
exec python3 "$(dirname "$0")/verify.py" "$@"
