# SPDX-License-Identifier: Apache-2.0
"""Trees of another Debian release: a compiler, for kernels whose build tools need its libc, what
Cryo is built with there, and Open MPI 5.0, which this release does not have, with its headers in one
of their own.

A tree is unpacked, never configured: it only has to run make and gcc, or mpirun. In the compiler's,
the cache is visible inside at its own path, so that the same make command works here and there.

    host.run(chroot.inside("trixie", ["make", …]), "…")
    place = chroot.get("trixie-openmpi")
"""

import os
import re
from dataclasses import dataclass

from . import archive, host, manifest


@dataclass(frozen=True)
class Tree:
    suite: str
    packages: list
    left_out: str = ""  # a pattern of names: packages that nothing here loads
    alone: bool = False  # without what the packages depend on
    builds: bool = False  # with all that Cryo is built with


def _packages_to_build():
    script = host.REPO / "scripts" / "lib" / "packages.sh"
    return host.run(["bash", "-c", '. "$0"; echo "${CRYO_PACKAGES_BUILD[@]}"', script],
                    script.name).split()


_TREES = {
    # What kbuild calls. The kernel's headers name the compiler with its version.
    "trixie": Tree("trixie", [
        "base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep",
        "gzip", "kmod", "libc-bin", "make", "mawk", "pahole", "perl-base", "sed", "tar",
        "xz-utils", "gcc-14"]),
    # What libfabric and hwloc would load for graphics cards is three quarters of it.
    "trixie-openmpi": Tree("trixie", [
        "base-files", "coreutils", "dash", "libc-bin", "libstdc++6", "openmpi-bin",
        "libxxhash0", "liblz4-1"],
        r"libamd.*|libhsa.*|libllvm.*|libz3-.*|libdrm.*|hwloc-plugins|libhwloc-plugins|libx.*|"
        r"libze1|ocl-icd.*|libpam.*|passwd|adduser|debconf|perl.*|dpkg|tar|libdb5.*|libsemanage.*"),
    # What a component for it is compiled and linked with.
    "trixie-openmpi-headers": Tree("trixie", [
        "base-files", "libopenmpi-dev", "libopenmpi40", "libevent-dev", "libhwloc-dev",
        "libpmix-dev"], alone=True),
}
# What a packager of that release builds Cryo with.
for _suite in "trixie", "forky":
    _TREES[f"{_suite}-builds"] = Tree(_suite, [
        "base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep", "libc-bin",
        "mawk", "perl-base", "sed", "tar", "git"], builds=True)
NAMES = [*_TREES]
_LINKS = {"usr/bin/awk": "mawk", "usr/bin/sh": "dash"}


def get(name):
    """The tree's path; made when missing or damaged."""
    place = host.cache() / "chroots" / name
    if manifest.read(place) is None:
        with host.lock(f"chroot-{name}"):
            if manifest.read(place) is None:
                _make(name, _TREES[name], place)
    return place


def _make(name, tree, place):
    host.say(f"unpacking the tree {name}")
    with host.lock(f"apt-{tree.suite}"), host.work_dir() as tmp:
        # A release that is not yet out is renewed every day, which not every mirror keeps up with.
        suite = archive.Suite(tree.suite, may_be_old=tree.suite == "forky")
        suite.refresh()
        wanted = tree.packages + (_packages_to_build() if tree.builds else [])
        packages = {package: version
                    for package, version in suite.closure_of_everything(wanted).items()
                    if not re.fullmatch(tree.left_out, package)
                    and (not tree.alone or package in tree.packages)}
        (tmp / "debs").mkdir()
        debs = suite.download(packages, tmp / "debs")
        # base-files brings the links /bin -> usr/bin that the others rely on.
        archive.unpack([deb for deb in debs if deb.name.startswith("base-files_")], tmp / "root")
        archive.unpack(debs, tmp / "root")
        for link, target in _LINKS.items():
            if not (tmp / "root" / link).exists():
                (tmp / "root" / link).symlink_to(target)
        for directory in ("dev", "proc", "sys", "tmp"):
            (tmp / "root" / directory).mkdir(exist_ok=True)
        manifest.seal(tmp / "root", packages=packages)
        host.replace(tmp / "root", place)


_ENTER = """
set -e
root=$1 ids=$2
shift 2
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    mkdir -p "$root$1"
    mount --rbind "$1" "$root$1"
    shift
done
shift
exec chroot --userspec="$ids" "$root" env -i PATH=/usr/sbin:/usr/bin LC_ALL=C HOME=/tmp "$@"
"""


def enter(tree, argv, seen=(), ids=None):
    """The command that runs argv in a directory with a system, as the calling user or as `ids`
    (UID:GID). The directories `seen` are there at their own paths."""
    ids = ids or f"{os.getuid()}:{os.getgid()}"
    return host.as_root(["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(tree), ids,
                         *map(str, seen), "--", *map(str, argv)])


def inside(suite_name, argv, seen=()):
    """The command that runs argv in the tree as the calling user. The directories `seen` are there at
    their own paths, as the cache is."""
    return enter(get(suite_name), ["env", "DEB_BUILD_ARCH=amd64", *argv], [host.cache(), *seen])
