#!/usr/bin/env bash
# clang-format over everything, then clang-tidy over core, planning and text, which need no LibTorch. `lint.sh all` has clang-tidy read the rest too, which takes minutes. clang-tidy reads the same groups of
# files as the compiler (cmake/Unity.cmake), so that it reads every header once a group and not once a file.
# Skips a tool that is not installed and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cc' 'src/*.h' 'tests/*.cc' 'tests/*.h' 'examples/*.cc' 'examples/*.h')
# Versions of clang-format disagree about the same style file; this one is what the sources follow.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  clang-format --dry-run --Werror "${sources[@]}"
  echo "lint: ${#sources[@]} files formatted"
else
  echo "lint: clang-format 14 is not installed; skipped"
fi

if clang-tidy --version 2>/dev/null | grep -q 'version 14\.'; then
  groups=(build/src/{core,planning,text}/CMakeFiles/*.dir/Unity/*.cxx)
  [[ "${1:-}" == all ]] && groups+=(build/src/{engine,app}/CMakeFiles/*.dir/Unity/*.cxx)
  printf '%s\n' "${groups[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build \
    2> >(grep -v 'warnings generated' >&2)
  echo "lint: ${#groups[@]} groups of files tidy"
else
  echo "lint: clang-tidy 14 is not installed; skipped"
fi
