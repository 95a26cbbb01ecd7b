#!/usr/bin/env bash
# Builds and runs C++ tests under a sanitizer: sanitized_tests.sh asan|tsan [all]
#
# Only the folders of tests that can have the defect are compiled: for the thread sanitizer those with threads, for the
# address and undefined-behavior sanitizers the readers of foreign bytes; for both the pipelines. Sweeps choose their
# own size under a sanitizer (tests/support/covering.h). `all` compiles every folder, completes the sweeps, and adds the
# checks that double the time to compile: of pointers (null, alignment, vptr, object-size, pointer-overflow and the
# attributes) and of uses after scope.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizer="$1" all="${2:-}"
folder="build-$sanitizer"
jobs="${JOBS:-$(nproc)}"  # nproc heeds OMP_NUM_THREADS, set below

# Short stacks of allocations: with long ones they take a fifth of the time.
export ASAN_OPTIONS="detect_leaks=0:malloc_context_size=6:check_initialization_order=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.suppressions"
# LibTorch's OpenMP is not instrumented: with one intra-op thread a stage it starts no team at all.
export OMP_NUM_THREADS=1

options=(-D TWOBW_CUDA=off)
targets=(twobw_core_tests twobw_torch_tests)
if [[ "$sanitizer" == tsan ]]; then
  # LibTorch's Gloo is not instrumented either: of its locks some are seen and some not. The same tests run over wires
  # in memory.
  options+=(-D GLOO_INCLUDE_DIR=)
  core="engine/control" torch="engine/transport;engine/runtime" less=
else
  targets+=(twobw_fuzz)
  core="text;engine/control" torch="engine/checkpoint;engine/runtime"
  less="null,alignment,vptr,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute"
fi
if [[ "$all" == all ]]; then
  core="" torch="" less=""
  export TWOBW_FULL_SWEEPS=1
  options+=(-D TWOBW_SANITIZE_PLANNING=ON)
else
  options+=(-D TWOBW_SANITIZE_PLANNING=OFF)
fi
cmake --preset "$sanitizer" -D "TWOBW_CORE_TESTS=$core" -D "TWOBW_TORCH_TESTS=$torch" \
  -D "TWOBW_SANITIZE_LESS=$less" "${options[@]}" > /dev/null
cmake --build --preset "$sanitizer" --parallel "$jobs" --target "${targets[@]}"

# Death tests, by the suffix that GoogleTest asks for, fork; sanitizers do not follow.
filter="--gtest_filter=-*DeathTest.*"
# Side by side: the tests of core use one thread, and pipelines of tiny models wait more than they compute.
running=() logs=()
start() {  # log command...
  logs+=("$folder/$1.log")
  "${@:2}" > "${logs[-1]}" 2>&1 &
  running+=($!)
}
for part in 0 1 2; do
  start "torch.$part" env GTEST_TOTAL_SHARDS=3 GTEST_SHARD_INDEX="$part" "$folder/tests/twobw_torch_tests" \
    --gtest_brief=1 "$filter"
done
start core "$folder/tests/twobw_core_tests" --gtest_brief=1 "$filter"
if [[ "$sanitizer" == asan ]]; then
  start fuzz "$folder/tests/twobw_fuzz" --seconds 20 --jobs 1 --seed 2 --failures "$folder"
fi
failed=
for i in "${!running[@]}"; do
  wait "${running[$i]}" || failed=yes
  cat "${logs[$i]}"
done
if [[ "$failed" ]]; then exit 1; fi
echo "$folder: clean"
