# SPDX-License-Identifier: Apache-2.0
"""Debian's kernel sources, unpacked in the cache. Whoever builds from them uses O=.

    tree = source.get("6.12")
"""

import os

from . import archive, host, manifest

# Nothing that a small x86 or UML kernel compiles; Kconfig and Makefiles stay.
_LEFT_OUT = [f"arch/{name}/{part}" for part in ("*.[chS]", "boot/*", "configs/*") for name in (
    "alpha arc arm arm64 csky hexagon loongarch m68k microblaze mips nios2 openrisc parisc "
    "powerpc riscv s390 sh sparc xtensa").split()]
_LEFT_OUT += ["Documentation/*/*", "tools/testing/selftests/*", "tools/perf/*"]
_LEFT_OUT += [f"{part}/*.[ch]" for part in (
    "drivers/gpu drivers/net/ethernet drivers/net/wireless drivers/media drivers/staging "
    "drivers/infiniband drivers/scsi drivers/iio drivers/mtd sound").split()]


def _link(name):
    return host.cache() / "source" / name


def _cached(name):
    link = _link(name)
    tree = link.parent / os.readlink(link) if link.is_symlink() else None
    return tree if tree and _sound(tree) else None


def _sound(tree):
    facts = manifest.read(tree)
    return facts is not None and facts["left_out"] == _LEFT_OUT


def get(name, refresh=False):
    """The tree of linux-source-NAME; fetched when missing, damaged, or to refresh it."""
    with host.lock(f"source-{name}"):
        return (None if refresh else _cached(name)) or _fetch(name)


def version(tree):
    """The package version the tree was unpacked from."""
    return tree.name.partition("_")[2]


def _fetch(name):
    package = f"linux-source-{name}"
    with host.lock("apt-bookworm"):
        suite = archive.Suite("bookworm")
        suite.refresh()
        exact = suite.show(package)["Version"]
        place = host.cache() / "source" / f"{package}_{exact}"
        if not _sound(place):
            host.say(f"fetching {package} {exact}")
            with host.work_dir() as tmp:
                debs = suite.download({package: exact}, tmp)
                archive.unpack(debs, tmp / "root")
                host.run(["tar", "-C", tmp, *(f"--exclude={package}/{path}" for path in _LEFT_OUT),
                          "-xf", tmp / "root/usr/src" / f"{package}.tar.xz"],
                         f"unpacking {package}")
                manifest.seal(tmp / package, left_out=_LEFT_OUT)
                host.replace(tmp / package, place)
    new = _link(name).with_suffix(".new")
    new.unlink(missing_ok=True)
    new.symlink_to(place.name)
    new.rename(_link(name))
    return place
