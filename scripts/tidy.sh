#!/usr/bin/env bash
# clang-tidy over the library and the tools, in parallel.
#   scripts/tidy.sh BUILD_DIR [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
[ $# -gt 0 ] || set -- $(git ls-files 'src/*.cpp' 'cli/*.cpp' 'bench/*.cpp')
# -W options that g++ knows and clang does not are no finding.
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option
