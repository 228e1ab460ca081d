# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the shell scripts share: where the tree is, how to speak, how to become root.

CRYO_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CRYO_CACHE=${CRYO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cryo}
export CRYO_TOP CRYO_CACHE

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }

# die "what is wrong" "what to do about it"
die() {
    printf '%s: %s\n' "$(basename "$0")" "$1" >&2
    [ $# -lt 2 ] || printf '  -> %s\n' "$2" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        die "'$1' needs root, and there is no sudo here" "run this script as root, or install sudo"
    fi
}

# step "what happens" LOGFILE COMMAND...: quiet on success, the log's tail on failure.
step() {
    local what=$1 log=$2 start=$SECONDS
    shift 2
    say "$what"
    mkdir -p "$(dirname "$log")"
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "$what: failed" "the whole log is in $log"
    fi
    if [ $((SECONDS - start)) -ge 10 ]; then
        printf '    done in %d s\n' $((SECONDS - start))
    fi
}

# configure_and_build PRESET [-DOPTION=VALUE...] [TARGET...]
configure_and_build() {
    local preset=$1 log=$CRYO_TOP/build/log options=()
    shift
    while [[ ${1:-} == -D* ]]; do options+=("$1") && shift; done
    local targets=("${@:-all}")
    cd "$CRYO_TOP" || die "cannot enter $CRYO_TOP"
    # A build tree made elsewhere (a copied checkout) cannot be used again: CMake would refuse it.
    local cache=build/$preset/CMakeCache.txt
    if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$CRYO_TOP" "$cache"; then
        rm -rf "build/$preset"
    fi
    # What was compiled before, here or in another clone, is not compiled again.
    local launcher=()
    if command -v ccache >/dev/null; then
        export CCACHE_DIR=$CRYO_CACHE/ccache CCACHE_BASEDIR=$CRYO_TOP CCACHE_NOHASHDIR=1
        launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    step "configuring ($preset)" "$log/configure-$preset.log" \
        cmake --preset "$preset" ${launcher[@]+"${launcher[@]}"} ${options[@]+"${options[@]}"}
    step "building ($preset)" "$log/build-$preset.log" \
        cmake --build --preset "$preset" --target "${targets[@]}"
}
