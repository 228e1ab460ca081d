# SPDX-License-Identifier: Apache-2.0
"""The debug kernel: a small one from Debian's sources with every checker that finds our mistakes.

It is built once per source version and configuration (debug.config) and then cached like a
fetched one; the module is compiled against its build directory.
"""

import hashlib
import pathlib
import re
import shutil

from . import host, manifest, source

SOURCE = "6.12"
_FRAGMENT = pathlib.Path(__file__).with_name("debug.config")


def available():
    """The directories of all debug kernels in the cache."""
    return sorted((host.cache() / "kernels").glob("debug-*"))


def get(refresh=False):
    """(release, root directory) of the debug kernel, built when missing or damaged."""
    tree = source.get(SOURCE, refresh)
    key = hashlib.sha256(_FRAGMENT.read_bytes()).hexdigest()[:12]
    place = host.cache() / "kernels" / f"debug-{source.version(tree)}-{key}"
    facts = manifest.read(place)
    if facts is None or not manifest.intact(place, "vmlinuz"):
        with host.lock("kernel-debug"):
            facts = manifest.read(place)
            if facts is None or not manifest.intact(place, "vmlinuz"):
                _build(tree, place)
                facts = manifest.read(place)
    return facts["release"], place


def _build(tree, place):
    host.say("building the debug kernel (some minutes, once)")
    with host.work_dir() as tmp:
        root = tmp / "root"
        out = root / "build"
        out.mkdir(parents=True)
        make = ["make", "-C", tree, f"O={out}", f"-j{host.cores()}", "KBUILD_BUILD_USER=cryo",
                "KBUILD_BUILD_HOST=cryo"]
        host.run([*make, f"KCONFIG_ALLCONFIG={_FRAGMENT}", "allnoconfig"], "make allnoconfig")
        _check_config(out / ".config")
        host.run([*make, "bzImage", "modules"], "building the debug kernel")
        host.run([*make, f"INSTALL_MOD_PATH={root}", "modules_install"], "make modules_install")
        release = (out / "include/config/kernel.release").read_text().strip()
        shutil.copy2(out / "arch/x86/boot/bzImage", root / "vmlinuz")
        _prune(out)
        # Both name the directory it was built in.
        for file in (out / "Makefile", out / ".config"):
            file.write_text(file.read_text().replace(str(root), str(place)))
        for link in ("build", "source"):
            (root / "lib/modules" / release / link).unlink(missing_ok=True)
        manifest.seal(root, release=release)
        host.replace(root, place)


def _check_config(config):
    """Kconfig drops what it cannot satisfy without a word; here that is an error."""
    got = set(config.read_text().splitlines())
    missing = [line for line in _FRAGMENT.read_text().splitlines()
               if re.match(r"CONFIG_", line) and line not in got and not line.endswith("=n")]
    if missing:
        raise host.Failure(f"{SOURCE} does not take from {_FRAGMENT}: {' '.join(missing)}")


def _prune(out):
    """Keeps what compiling a module needs."""
    for path in out.rglob("*"):
        if path.is_file() and path.relative_to(out).parts[0] != "scripts" and (
                path.suffix in (".o", ".a", ".cmd", ".order", ".bin", ".c", ".S")
                or path.name in ("vmlinux", "vmlinux.unstripped", "bzImage", "vmlinux.relocs",
                                 "System.map")):
            path.unlink()
