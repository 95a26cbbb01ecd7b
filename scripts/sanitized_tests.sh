#!/usr/bin/env bash
# Builds and runs C++ tests under a sanitizer: sanitized_tests.sh asan|tsan [all]
#
# The address and undefined-behaviour sanitizers run all of them. The thread sanitizer runs what has threads (links,
# groups, workers, pipelines, measurements); with `all` it runs the single-threaded rest too, the exhaustive sweeps of
# schedule and planner among it, and those sweeps in full.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizer="$1" all="${2:-}"
folder="build-$sanitizer"

export ASAN_OPTIONS="detect_leaks=0:check_initialization_order=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.suppressions"
# LibTorch's OpenMP is not instrumented: with one intra-op thread a stage it starts no team at all.
export OMP_NUM_THREADS=1

if [[ "$all" == all ]]; then export TWOBW_FULL_SWEEPS=1; fi

programs=(core torch)
left_out='*DeathTest*'
if [[ "$sanitizer" == tsan && "$all" != all ]]; then
  programs=(torch)
  for suite in Gpt. Gpt/ ModelKernels Linear Embedding LayerNorm Gelu Attention Dropout HeadLoss Safetensors Bytes \
      Synthetic Optimizer SquaredNorm LearningRate ClipScale Layout Checksum Gradients ParameterViews FastestSplit \
      Samples; do
    left_out+=":$suite*"
  done
fi
cmake --preset "$sanitizer" > /dev/null
targets=("${programs[@]/#/twobw_}")
cmake --build --preset "$sanitizer" --parallel "${JOBS:-$(nproc)}" --target "${targets[@]/%/_tests}"
for program in "${programs[@]}"; do
  "$folder/tests/twobw_${program}_tests" --gtest_brief=1 --gtest_filter="-$left_out"
done
echo "$folder: clean"
