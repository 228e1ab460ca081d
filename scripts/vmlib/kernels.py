# SPDX-License-Identifier: Apache-2.0
"""The kernels scripts/vm knows, and the cache of their packages.

A kernel is named as people do (6.12) and has a flavour; the cache holds one exact release of it
until somebody asks for a newer one.

    kernel = kernels.get("6.12", "cloud")        fetched when missing or damaged
    kernel.release, kernel.vmlinuz, kernel.build_dir, kernel.root
"""

import dataclasses
import os
import pathlib
import re
import shutil

from . import archive, debugkernel, host, manifest


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a kernel comes from: a Debian release, its packages, and who can build for it."""
    suite: str
    prefer: str | None
    infix: str            # linux-image-INFIXcloud-amd64
    toolchain: str | None  # a chroot to build in, where this machine's tools may be too old


# To add a kernel, add a line.
ORIGINS = {
    "6.1": Origin("bookworm", None, "", None),
    "6.12": Origin("bookworm", None, "6.12-", None),
    "7": Origin("trixie", "trixie-backports", "", "trixie"),
}
DEBUG = "debug"
NAMES = [*ORIGINS, DEBUG]
FLAVOURS = {"cloud": "cloud-amd64", "generic": "amd64"}
_PARTS = r"linux-(image|base|headers|kbuild|binary|modules)-\d.*"


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One exact kernel, ready to boot and to build modules for."""
    name: str
    flavour: str
    release: str
    root: pathlib.Path       # for modprobe -d: lib/modules/RELEASE lies below it
    build_dir: pathlib.Path  # KDIR of `make -C KDIR M=…`
    toolchain: str | None = None

    @property
    def vmlinuz(self):
        """What QEMU boots."""
        return self.root / "vmlinuz"


def _link(name, flavour):
    return host.cache() / "kernels" / f"{name}-{flavour}"


def cached(name, flavour):
    """The kernel as the cache has it, or None."""
    link = _link(name, flavour)
    root = link.parent / os.readlink(link) if link.is_symlink() else None
    facts = manifest.read(root) if root else None
    if facts is None or not manifest.intact(root, "vmlinuz"):
        return None
    release = facts["release"]
    return Kernel(name, flavour, release, root, _headers(root, release), ORIGINS[name].toolchain)


def _headers(root, release):
    return root / "usr/src" / f"linux-headers-{release}"


def available():
    """(name, flavour, release or None when damaged) of every kernel in the cache."""
    for link in sorted((host.cache() / "kernels").glob("*-*")):
        if link.is_symlink():
            name, _, flavour = link.name.rpartition("-")
            kernel = cached(name, flavour)
            yield name, flavour, kernel and kernel.release
    for root in debugkernel.available():
        facts = manifest.read(root)
        yield DEBUG, "", facts and facts["release"]


def get(name, flavour, refresh=False):
    """The kernel, fetched when the cache lacks it, when it is damaged, or to refresh it."""
    if name == DEBUG:
        release, root = debugkernel.get(refresh)
        return Kernel(name, flavour, release, root, root / "build")
    kernel = None if refresh else cached(name, flavour)
    if kernel is None:
        with host.lock(f"kernel-{name}-{flavour}"):
            kernel = (None if refresh else cached(name, flavour)) or _fetch(name, flavour)
    return kernel


def _fetch(name, flavour):
    origin = ORIGINS[name]
    suffix = origin.infix + FLAVOURS[flavour]
    with host.lock(f"apt-{origin.prefer or origin.suite}"):
        suite = archive.Suite(origin.suite, origin.prefer)
        suite.refresh()
        parts = suite.closure([f"linux-image-{suffix}", f"linux-headers-{suffix}"], _PARTS)
        release = next(match[1] for match in
                       (re.fullmatch(r"linux-image-(\d+\..*)", part) for part in parts)
                       if match and match[1] != suffix)
        place = host.cache() / "kernels" / release
        facts = manifest.read(place, every_byte=True)
        if facts is None:
            host.say(f"fetching kernel {release}")
            with host.work_dir() as tmp:
                (tmp / "debs").mkdir()
                archive.unpack(suite.download(parts, tmp / "debs"), tmp / "root")
                _arrange(tmp / "root", place, release)
                manifest.seal(tmp / "root", release=release, packages=parts)
                host.replace(tmp / "root", place)
    new = _link(name, flavour).with_suffix(".new")
    new.unlink(missing_ok=True)
    new.symlink_to(release)
    new.rename(_link(name, flavour))
    return cached(name, flavour)


def _arrange(root, place, release):
    """Makes the unpacked packages usable where they will lie, which is not / but `place`."""
    if not (root / "lib/modules").is_dir():
        (root / "lib").mkdir(exist_ok=True)
        (root / "usr/lib/modules").rename(root / "lib/modules")
    modules = root / "lib/modules" / release
    for image in (root / "boot" / f"vmlinuz-{release}", modules / "vmlinuz"):
        if image.exists():
            image.rename(root / "vmlinuz")
    shutil.rmtree(root / "usr/share", ignore_errors=True)
    for link in ("build", "source"):
        (modules / link).unlink(missing_ok=True)
    host.run(["depmod", "-b", root, release], "depmod")
    headers = _headers(root, release)
    for makefile in (headers / "Makefile", headers / ".kernelvariables"):
        if makefile.is_file() and not makefile.is_symlink():
            text = makefile.read_text()
            makefile.write_text(text.replace("/usr/src/", f"{place}/usr/src/"))
