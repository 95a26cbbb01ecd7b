#!/usr/bin/env bash
# Runs the kernels' tests under compute-sanitizer (of the CUDA toolkit): accesses out of bounds, then races in
# shared memory. Needs a GPU.
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
for tool in memcheck racecheck; do
  compute-sanitizer --tool "$tool" --error-exitcode 1 build/tests/twobw_cuda_tests --gtest_brief=1
  echo "$tool: clean"
done
