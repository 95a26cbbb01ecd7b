#!/usr/bin/env bash
# timed.sh NAME COMMAND... runs a part of `make test` and records its time; `timed.sh --report` prints all times.
set -euo pipefail
notes="${TWOBW_TIMES:-build/test-times.txt}"
if [[ "$1" == --report ]]; then
  echo "times:"
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
