#!/usr/bin/env bash
# Builds and runs C++ tests under a sanitizer: sanitized_tests.sh asan|tsan [all]
#
# The address and undefined-behaviour sanitizers run nearly all of them, the thread sanitizer what has threads (controls,
# links, groups, workers, pipelines). Schedules, simulator and planner, pure functions whose subscripts are
# checked in every build, are compiled as they are. With `all` both run everything: those too, with their sweeps in full,
# every pipeline that is compared with the oracle, and the checks that double the time to compile: of pointers (null,
# alignment, vptr, object-size, pointer-overflow and the attributes; a null pointer stops the program without them too)
# and of uses after scope in the tests themselves.
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

less=null,alignment,vptr,object-size,pointer-overflow,nonnull-attribute,returns-nonnull-attribute
if [[ "$all" == all || "$sanitizer" == tsan ]]; then less=; fi
if [[ "$all" == all ]]; then export TWOBW_FULL_SWEEPS=1; fi

folders=(-U TWOBW_CORE_TESTS -U TWOBW_TORCH_TESTS -D TWOBW_SANITIZE_PLANNING=ON)
left_out='*DeathTest*'
if [[ "$all" != all ]]; then
  folders=(-U TWOBW_TORCH_TESTS -D TWOBW_SANITIZE_PLANNING=OFF
    -D "TWOBW_CORE_TESTS=base;launch;control;tokenizer;corpus;telemetry;architecture;planner/hardware")
  # Of the pipelines that are compared with the oracle: 2bw and flush, up to two replicas, three stages, and four with
  # two gradient buffers; at most one extra microbatch; predictions from the start, or after one update under flush. Of
  # those that go on from a checkpoint every second. With shared state two replicas. In 16 bits: every family, head and
  # optimizer, but not every schedule.
  for schedule in sequential gpipe stash; do
    left_out+=":Schedules/Exactness.*/${schedule}_*:*/Spread.*_${schedule}_*"
  done
  for depth in 1 2; do left_out+=":*/Exactness.*_d${depth}_*"; done
  left_out+=":OneGradientBuffer/Exactness.*:*/Exactness.*w3_*:*/Exactness.*_d4_*_one:Predicted/Exactness.*_sync3_*"
  left_out+=":*/Exactness.*_e2_*:ExactnessTest.NeverMoreThanTwoVersionsUnder2BW"
  for digit in 1 3 5 7 9; do left_out+=":Schedules/Resume*.*${digit}"; done
  left_out+=":Schedules/Sharded.*_w3_*:Schedules/Sharded.*_delayed*"
  left_out+=":Float16.AllStagesAgreeOnTheLossScaleUnderEverySchedule:Float16.TheRulesOf2BW"
  left_out+=":Bfloat16.EveryScheduleOnOneToFourStages"
  left_out+=":ExactnessTest.SynchronousSchedulesAreOneAnother"
  # Bytes of every kind of layer, one after the other, in one thread.
  left_out+=":Profiler.MeasuresTheBytesThatAreDescribed"
fi
# Delays on the way between processes change when threads meet, and nothing in memory. Families and optimizers are there
# in bf16.
if [[ "$sanitizer" == asan && "$all" != all ]]; then
  left_out+=":*/Spread.*_delayed:Float16.EveryFamilyAndHead:ExactnessTest.EveryOptimizerPredicts"
fi
if [[ "$sanitizer" == tsan && "$all" != all ]]; then
  # Threads meet in the same ways whatever the depth, the family and the head.
  left_out+=":*/Exactness.*_d4_*:Families/Heads.*:Families/PackedSequences.*"
  left_out+=":Float16.EveryFamilyAndHead:Bfloat16.EveryFamilyAndHead"
  left_out+=":ExactnessTest.GroupsHoldOnEveryStageThatHasTheirParameters"
  folders=(-D TWOBW_SANITIZE_PLANNING=OFF -D TWOBW_CORE_TESTS=control
    -D "TWOBW_TORCH_TESTS=checkpoint;data;transport;rendezvous;runtime;inference;train")
  for suite in Safetensors HuggingFace Folder. StoreTest.AFlippedBit CheckpointFuzz Bytes Synthetic \
      Schedules/StageMemory; do
    left_out+=":$suite*"
  done
fi
# LibTorch's Gloo is not instrumented: of the locks that it takes some are seen and some not. The same tests run over
# wires in memory.
if [[ "$sanitizer" == tsan ]]; then left_out+=':*Gloo*'; fi
cmake --preset "$sanitizer" -D TWOBW_SANITIZE_LESS="$less" "${folders[@]}" > /dev/null
targets=(twobw_core_tests twobw_torch_tests)
# Readers of foreign files have no threads.
if [[ "$sanitizer" == asan ]]; then targets+=(twobw_fuzz); fi
cmake --build --preset "$sanitizer" --parallel "$jobs" --target "${targets[@]}"
# Side by side, in parts: the tests of core use one thread, and pipelines of tiny models wait more than they compute.
running=() logs=()
start() {  # program parts
  for ((part = 0; part < $2; ++part)); do
    logs+=("$folder/$1.$part.log")
    GTEST_TOTAL_SHARDS="$2" GTEST_SHARD_INDEX="$part" "$folder/tests/twobw_$1_tests" --gtest_brief=1 \
      --gtest_filter="-$left_out" > "${logs[-1]}" 2>&1 &
    running+=($!)
  done
}
start torch 3
start core 1
if [[ "$sanitizer" == asan ]]; then
  logs+=("$folder/fuzz.log")
  "$folder/tests/twobw_fuzz" --seconds 20 --jobs 1 --seed 2 --failures "$folder" > "${logs[-1]}" 2>&1 &
  running+=($!)
fi
failed=
for i in "${!running[@]}"; do
  wait "${running[$i]}" || failed=yes
  cat "${logs[$i]}"
done
if [[ "$failed" ]]; then exit 1; fi
echo "$folder: clean"
