#!/usr/bin/env bash
# Runs the tests of kernels and of operations under compute-sanitizer (of the CUDA toolkit), which checks this
# program's kernels: accesses out of bounds, then races in shared memory. Needs a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v compute-sanitizer > /dev/null; then
  echo "gpu-check: compute-sanitizer is not on the PATH; it comes with the CUDA toolkit" >&2
  exit 2
fi
if ! nvidia-smi -L > /dev/null 2>&1; then
  echo "gpu-check: no GPU here" >&2
  exit 2
fi
left_out=StreamGates.*  # hold a kernel on the GPU while others run, which is not for tools that run one at a time
shards=4  # at once: racecheck took 104 s so, and had not ended after 200 s in one process
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

check() {  # tool program filter
  local tool=$1 options=() processes=() failed=0
  # cuBLAS asks for the context of a thread that has none yet, and continues.
  [[ $tool != memcheck ]] || options=(--report-api-errors no)
  for ((i = 0; i < shards; ++i)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 1 \
      --kernel-regex kns=twobw "build/tests/$2" --gtest_filter="$3" --gtest_brief=1 > "$folder/$i" 2>&1 &
    processes+=($!)
  done
  for ((i = 0; i < shards; ++i)); do
    wait "${processes[i]}" || { cat "$folder/$i" >&2; failed=1; }
  done
  [[ $failed -eq 0 ]] || { echo "$tool: found something, see above" >&2; exit 1; }
  echo "$tool, $2: clean"
}

for tool in memcheck racecheck; do
  check "$tool" twobw_cuda_tests "-$left_out"
  check "$tool" twobw_cuda_torch_tests "*OpsOnGpu.*:DropoutOnGpu.*"
done
