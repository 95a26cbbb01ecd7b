#!/usr/bin/env bash
# Installs missing build dependencies: Debian packages, and the pinned Python packages (LibTorch is part of torch) into
# .venv. Never asks.
#
# `install.sh launchers` also installs Open MPI, iproute2 and Slurm, for tests of several processes and hosts. Without
# them these tests are skipped.
#
# TWOBW_PYTHON=/path/to/python3 uses that interpreter's torch instead of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

required=(g++ make cmake ninja-build libcli11-dev libfmt-dev nlohmann-json3-dev
          libyaml-cpp-dev libxxhash-dev libgtest-dev python3-venv)
# Optional packages, installed if the distribution has them.
optional=(ccache clang-format clang-tidy libutf8proc-dev libsentencepiece-dev zlib1g-dev libzstd-dev
          libgloo-dev)
if [[ "${1:-}" == launchers ]]; then optional+=(openmpi-bin iproute2 slurmctld slurmd slurm-client munge); fi

have_package() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# A command on PATH replaces its package, for instance a newer cmake.
have() {
  case "$1" in
    g++|make|cmake|ccache|clang-format|clang-tidy) command -v "$1" >/dev/null || have_package "$1" ;;
    ninja-build) command -v ninja >/dev/null ;;
    python3-venv) [[ -x .venv/bin/pip ]] || python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    *) have_package "$1" ;;
  esac
}

install_debian_packages() {
  command -v apt-get >/dev/null || { echo "install: no apt-get here; install by hand: $*" >&2; return 1; }
  local as_root=()
  [[ $(id -u) -eq 0 ]] || as_root=(sudo)
  echo "install: apt-get install $*"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

missing=()
for package in "${required[@]}"; do have "$package" || missing+=("$package"); done
if [[ ${#missing[@]} -gt 0 ]]; then install_debian_packages "${missing[@]}"; fi
missing=()
for package in "${optional[@]}"; do have "$package" || missing+=("$package"); done
if [[ ${#missing[@]} -gt 0 ]] && ! install_debian_packages "${missing[@]}"; then
  for package in "${missing[@]}"; do
    install_debian_packages "$package" || echo "install: continuing without $package"
  done
fi

# uv downloads and unpacks several packages at a time, from the index that pip is configured for.
install_with_uv() {
  local index="${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.8 || return 1
  env ${index:+"UV_DEFAULT_INDEX=$index"} UV_SYSTEM_CERTS=1 \
    .venv/bin/uv pip install --quiet --python .venv/bin/python -r requirements.txt
}

if [[ -n "${TWOBW_PYTHON:-}" ]]; then exit 0; fi
if ! cmp -s requirements.txt .venv/installed-requirements.txt; then
  echo "install: Python packages of requirements.txt into .venv (LibTorch among them; 4.7 GB)"
  [[ -x .venv/bin/python ]] || python3 -m venv .venv
  install_with_uv ||
    .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -r requirements.txt
  cp requirements.txt .venv/installed-requirements.txt
fi
