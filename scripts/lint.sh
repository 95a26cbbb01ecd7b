#!/usr/bin/env bash
# clang-format over everything, clang-tidy over what twobw_core is made of (the rest takes minutes; `lint.sh all`
# does it too). Skips a tool that is not installed and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cc' 'src/*.h' 'tests/*.cc' 'tests/*.h')
# Versions of clang-format disagree about the same style file; this one is what the sources follow.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  clang-format --dry-run --Werror "${sources[@]}"
  echo "lint: ${#sources[@]} files formatted"
else
  echo "lint: clang-format 14 is not installed; skipped"
fi

if clang-tidy --version 2>/dev/null | grep -q 'version 14\.'; then
  patterns=('src/base/*.cc' 'src/schedule/*.cc' 'src/simulator/*.cc' 'src/planner/*.cc' 'src/telemetry/*.cc'
    'src/device/available.cc' 'src/device/cores.cc' 'src/device/machine.cc')
  [[ "${1:-}" == all ]] && patterns=('src/*.cc')
  mapfile -t files < <(git ls-files "${patterns[@]}")
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy --quiet -p build 2> >(grep -v 'warnings generated' >&2)
  echo "lint: ${#files[@]} files tidy"
else
  echo "lint: clang-tidy 14 is not installed; skipped"
fi
