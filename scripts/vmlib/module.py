# SPDX-License-Identifier: Apache-2.0
"""Builds cryo.ko for a kernel, out of the checkout, and keeps it as long as the sources are same.

    module.build(kernel)  ->  path of cryo.ko
"""

import hashlib
import shutil

from . import chroot, host, manifest

_SUFFIXES = {".c", ".h", ".S"}
_NAMES = {"Kbuild", "Kconfig", "Makefile"}


def _sources():
    """Kbuild and what lies under kmod/, as paths from the top of the checkout."""
    files = [host.REPO / "Kbuild"]
    files += [path for path in sorted((host.REPO / "kmod").rglob("*"))
              if (path.suffix in _SUFFIXES and not path.name.endswith(".mod.c"))
              or path.name in _NAMES]
    return [path.relative_to(host.REPO) for path in files]


def _key(kernel, sources):
    digest = hashlib.sha256(f"{kernel.release} {kernel.root}\n".encode())
    for path in sources:
        digest.update(f"{path}\n".encode() + (host.REPO / path).read_bytes())
    return digest.hexdigest()[:16]


def build(kernel):
    """The path of cryo.ko for this kernel, built unless it is there already."""
    if not (host.REPO / "Kbuild").exists():
        raise host.Failure(f"{host.REPO} has no Kbuild: there is no module to build")
    sources = _sources()
    place = host.cache() / "modules" / kernel.release / _key(kernel, sources)
    if manifest.read(place) is None:
        with host.lock(f"module-{kernel.release}"), host.work_dir() as tmp:
            if manifest.read(place) is None:
                _make(kernel, sources, tmp / "src")
                (tmp / "out").mkdir()
                for built in (tmp / "src").rglob("*.ko"):
                    shutil.copy2(built, tmp / "out" / built.name)
                manifest.seal(tmp / "out", release=kernel.release)
                host.replace(tmp / "out", place)
    return place / "cryo.ko"


def _make(kernel, sources, copy):
    for path in sources:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(host.REPO / path, copy / path)
    make = ["make", "-C", kernel.build_dir, f"M={copy}", f"-j{host.cores()}", "modules"]
    if kernel.toolchain:
        make = chroot.inside(kernel.toolchain, make)
    host.run(make, f"building cryo.ko for {kernel.release}")
