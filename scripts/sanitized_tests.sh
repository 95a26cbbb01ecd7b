#!/usr/bin/env bash
# Runs the C++ tests of a sanitizer build: sanitized_tests.sh build-tsan [all]
#
# The thread sanitizer runs what has threads: the torch tests (links, groups, workers, pipelines, measurements) and of
# the core tests the reports of running workers. With `all` it runs the single-threaded rest too.
set -euo pipefail
cd "$(dirname "$0")/.."
folder="$1"

export ASAN_OPTIONS="detect_leaks=0:check_initialization_order=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.suppressions"
# LibTorch's OpenMP is not instrumented: with one intra-op thread a stage it starts no team at all.
export OMP_NUM_THREADS=1

core="*" torch="-*DeathTest*"
if [[ "$folder" == *tsan && "${2:-}" != all ]]; then
  core="Board*:Machine*:Progress*"
  torch="-*DeathTest*:Gpt*:Kernels*:Ops*:*Safetensors*:Layout*:Checksum*:Gradients*:Versions*:*Optimizer*:*LearningRate*:Tokens*"
fi
"$folder/tests/twobw_core_tests" --gtest_brief=1 --gtest_filter="$core"
"$folder/tests/twobw_torch_tests" --gtest_brief=1 --gtest_filter="$torch"
echo "$folder: clean"
