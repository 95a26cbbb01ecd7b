#!/usr/bin/env bash
# Runs a part of `make test` and notes what it took: timed.sh NAME COMMAND...; `timed.sh --report` prints all of them.
set -euo pipefail
notes="${TWOBW_TIMES:-build/test-times.txt}"
if [[ "$1" == --report ]]; then
  echo "what each part took:"
  awk '{printf "  %-28s %4d s\n", $1, $2; all += $2} END {printf "  %-28s %4d s\n", "all", all}' "$notes"
  rm -f "$notes"
  exit
fi
name="$1"
shift
begin=$(date +%s)
"$@"
mkdir -p "$(dirname "$notes")"
echo "$name $(($(date +%s) - begin))" >> "$notes"
