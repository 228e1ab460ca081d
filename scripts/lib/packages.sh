# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Every Debian package that building and testing need, by purpose, and how they are installed.
# shellcheck disable=SC2034 # the lists are used by whoever sources this file
# What is not named here does not exist on the next machine.

CRYO_PACKAGES_BUILD=(
    g++ ccache cmake ninja-build pkg-config make
    libcli11-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev
    libzstd-dev liblz4-dev libxxhash-dev liburing-dev libnl-3-dev libnl-genl-3-dev
    libssl-dev libisal-dev libmicrohttpd-dev libcurl4-openssl-dev libpugixml-dev libgtest-dev libgmock-dev libbenchmark-dev
    mandoc bash-completion python3 libpython3-dev procps
)

# To run MPI jobs, which quickstart shows.
CRYO_PACKAGES_MPI=(libopenmpi-dev openmpi-bin)

# Debian packages, which parts for MPI belong to, and a clean system to install them into.
CRYO_PACKAGES_PACKAGE=(dpkg-dev debhelper dh-dkms dh-python lintian libopenmpi-dev libmpich-dev libslurm-dev mmdebstrap)

# The virtual machines, the kernels built for them, KUnit.
CRYO_PACKAGES_VM=(
    qemu-system-x86 qemu-system-common busybox-static
    bc bison flex cpio dwarves kmod libelf-dev libssl-dev rsync xz-utils zstd
    dkms iproute2 dmsetup e2fsprogs
)

CRYO_PACKAGES_LINT=(clang-format clang-tidy shellcheck sparse pyflakes3 perl)

# Of the full tier alone: what other distributions and clusters install Cryo by and run it in, a
# browser that shows the pages of cr_inspect --html, and an object store.
CRYO_PACKAGES_FULL=(
    rpm rpmlint ansible-core ansible-lint prometheus chromium python3-swift
    podman crun uidmap # containers of root's and of a user's
    openssh-client     # to the machines of scripts/tour
)

# Sanitizers, libFuzzer, and the languages that the test programs are written in.
CRYO_PACKAGES_TEST=(
    mold # links the unit tests
    clang libclang-rt-14-dev git perl bash python3-numpy cpio
    criu libnftables1
    tmux bsdutils make perl gawk vim # programs that people run, as trees
    libopenmpi-dev openmpi-bin libmpich-dev mpich gfortran python3-mpi4py gdb # MPI programs, and where a hanging one waits
    hpcc lammps lammps-examples # and such as people have
    slurm-wlm libslurm-dev munge # another launcher, and a batch system
    stress-ng                   # the load of scripts/test --repeat
)

# install_packages NAME...: installs those that are missing, and asks for root only then.
install_packages() {
    local missing=() name
    for name in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then
            missing+=("$name")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "missing packages: ${missing[*]}" "install what provides them here; only Debian is automated"
    local log=$CRYO_TOP/build/log/packages.log
    step "updating the package lists" "$log" as_root apt-get update
    step "installing ${#missing[@]} packages: ${missing[*]}" "$log" \
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        "${missing[@]}"
}
