#!/usr/bin/env bash
# Runs the C++ tests of a sanitizer build: sanitized_tests.sh build-tsan
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$1"

export ASAN_OPTIONS="detect_leaks=0:check_initialization_order=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.suppressions"
# LibTorch's OpenMP is not instrumented: with one intra-op thread a stage it starts no team at all.
export OMP_NUM_THREADS=1

"$folder/tests/twobw_core_tests" --gtest_brief=1
"$folder/tests/twobw_torch_tests" --gtest_brief=1 --gtest_filter="-*DeathTest*"
echo "$folder: clean"
