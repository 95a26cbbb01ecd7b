#!/usr/bin/env bash
# clang-format over everything; `lint.sh all` adds clang-tidy, which takes minutes. clang-tidy reads the same groups of
# files as the compiler (cmake/Unity.cmake), so that it reads every header once a group and not once a file.
# Skips a tool that is not installed and says so.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t sources < <(git ls-files 'src/*.cc' 'src/*.h' 'tests/*.cc' 'tests/*.h' 'examples/*.cc' 'examples/*.h')
# Versions of clang-format format differently; the sources follow this one.
if clang-format --version 2>/dev/null | grep -q 'version 14\.'; then
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 100 clang-format --dry-run --Werror
  echo "lint: ${#sources[@]} files formatted"
else
  echo "lint: clang-format 14 is not installed; skipped"
fi

[[ "${1:-}" == all ]] || exit 0
if clang-tidy --version 2>/dev/null | grep -q 'version 14\.'; then
  groups=(build/src/*/CMakeFiles/*.dir/Unity/*.cxx)
  printf '%s\n' "${groups[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p build \
    2> >(grep -v 'warnings generated' >&2)
  echo "lint: ${#groups[@]} groups of files tidy"
else
  echo "lint: clang-tidy 14 is not installed; skipped"
fi
