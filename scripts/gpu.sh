#!/usr/bin/env bash
# Everything that wants a GPU, in one go: builds, tests on the device, looks for hazards, measures; prints a short table.
#   scripts/gpu.sh [BUILD] [PYTHON]     BUILD: build folder (build/release); PYTHON: one with torch, for the comparison
# A BUILD made elsewhere is taken as it is: `gpu_tests` and `splitq` need no file of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release} python=${2:-}
tests=$build/tests/gpu/gpu_tests splitq=$build/cli/splitq
logs=$build/gpu_logs
mkdir -p "$logs"
if [ ! -x "$tests" ] || [ ! -x "$splitq" ]; then
  scripts/setup.sh build
  cmake --preset release -B "$build"
  cmake --build "$build" --target gpu_tests cuda_tests splitq_cli
fi
failed=0
row() { printf '%-28s %s\n' "$1" "$2"; }

# Compiling kernels is most of the work: as many processes as there are processors share the tests.
shards=$(nproc)
begin=$SECONDS pids=()
for ((i = 0; i < shards; ++i)); do
  GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$i timeout 600 "$tests" --gtest_filter='Gpu*:*/Gpu*' >"$logs/tests.$i" 2>&1 &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
row "gpu_tests" "$(cat "$logs"/tests.* | grep -c '^\[       OK' || true) passed, $(cat "$logs"/tests.* | grep -c '^\[  FAILED  \].*ms)' || true) failed, $(cat "$logs"/tests.* | grep -c '^\[  SKIPPED \].*ms)' || true) skipped, $((SECONDS - begin)) s"
if [ -x "$build/tests/cuda/cuda_tests" ]; then
  "$build/tests/cuda/cuda_tests" --gtest_filter='Gpu*' >"$logs/cuda" 2>&1 || failed=1
  row "cuda_tests" "$(grep -c '^\[       OK' "$logs/cuda" || true) passed"
fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1 || true)
for tool in memcheck racecheck; do
  if [ -z "$sanitizer" ]; then
    row "$tool" "not run: no compute-sanitizer"
  else
    timeout 300 "$sanitizer" --tool "$tool" --error-exitcode 1 "$tests" --gtest_filter='GpuPlan.A*' >"$logs/$tool" 2>&1 || failed=1
    row "$tool" "$(tail -1 "$logs/$tool")"
  fi
done

"$splitq" bench --device cuda --quick --json "$logs/bench.json" ${python:+--python "$python"} || failed=1
row "logs" "$logs"
exit "$failed"
