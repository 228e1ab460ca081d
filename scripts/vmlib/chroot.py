# SPDX-License-Identifier: Apache-2.0
"""A compiler of another Debian release, for kernels whose build tools need its libc.

The tree is unpacked, never configured: it only has to run make and gcc. The cache is visible
inside at its own path, so that the same make command works here and there.

    host.run(chroot.inside("trixie", ["make", …]), "…")
"""

import os

from . import archive, host, manifest

# What kbuild calls. The kernel's headers name the compiler with its version.
_PACKAGES = ["base-files", "bash", "coreutils", "dash", "diffutils", "findutils", "gawk", "grep",
             "gzip", "kmod", "libc-bin", "make", "mawk", "pahole", "perl-base", "sed", "tar",
             "xz-utils"]
_COMPILER = {"trixie": "gcc-14"}
_LINKS = {"usr/bin/awk": "mawk", "usr/bin/sh": "dash"}


def get(suite_name):
    """The tree's path; made when missing or damaged."""
    place = host.cache() / "chroots" / suite_name
    if manifest.read(place) is None:
        with host.lock(f"chroot-{suite_name}"):
            if manifest.read(place) is None:
                _make(suite_name, place)
    return place


def _make(suite_name, place):
    host.say(f"unpacking a {suite_name} toolchain")
    with host.lock(f"apt-{suite_name}"), host.work_dir() as tmp:
        suite = archive.Suite(suite_name)
        suite.refresh()
        packages = suite.closure_of_everything([*_PACKAGES, _COMPILER[suite_name]])
        (tmp / "debs").mkdir()
        debs = suite.download(packages, tmp / "debs")
        # base-files brings the links /bin -> usr/bin that the others rely on.
        archive.unpack([deb for deb in debs if deb.name.startswith("base-files_")], tmp / "root")
        archive.unpack(debs, tmp / "root")
        for name, target in _LINKS.items():
            if not (tmp / "root" / name).exists():
                (tmp / "root" / name).symlink_to(target)
        for name in ("dev", "proc", "tmp"):
            (tmp / "root" / name).mkdir(exist_ok=True)
        (tmp / "root" / str(host.cache()).lstrip("/")).mkdir(parents=True, exist_ok=True)
        manifest.seal(tmp / "root", packages=packages)
        host.replace(tmp / "root", place)


_ENTER = """
set -e
mount --rbind "$2" "$1$2"
mount --bind /dev "$1/dev"
mount -t proc proc "$1/proc"
root=$1 ids=$3
shift 3
exec chroot --userspec="$ids" "$root" env -i PATH=/usr/sbin:/usr/bin LC_ALL=C HOME=/tmp \
    DEB_BUILD_ARCH=amd64 "$@"
"""


def inside(suite_name, argv):
    """The command that runs argv in the tree as the calling user."""
    tree = get(suite_name)
    ids = f"{os.getuid()}:{os.getgid()}"
    return host.as_root(["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(tree),
                         str(host.cache()), ids, *argv])
