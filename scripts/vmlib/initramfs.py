# SPDX-License-Identifier: Apache-2.0
"""A tiny initramfs for kernels that have virtiofs or virtio_pci only as modules."""

import lzma
import pathlib
import stat
import subprocess

from . import host

NEEDED = ("virtio_pci", "virtiofs")
BUSYBOX = pathlib.Path("/bin/busybox")


def needed_by(kernel):
    """The initramfs of this kernel as bytes, or None when everything in NEEDED is built in."""
    modules = kernel.root / "lib/modules" / kernel.release
    builtin = {pathlib.Path(line).stem for line in
               (modules / "modules.builtin").read_text().split()}
    missing = [name for name in NEEDED if name not in builtin]
    return _archive(_in_load_order(modules, missing)) if missing else None


def _in_load_order(modules, names):
    """The modules' files, each after those it depends on."""
    depends = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        depends[file] = rest.split()
    by_name = {file.rsplit("/", 1)[-1].split(".ko")[0]: file for file in depends}
    order = []
    for name in names:
        file = by_name.get(name) or by_name.get(name.replace("_", "-"))
        if file is None:
            raise host.Failure(f"kernel {modules.name} has no module {name}: it cannot be booted "
                               "from the host's file system")
        for needed in [*reversed(depends[file]), file]:
            if needed not in order:
                order.append(needed)
    return [modules / file for file in order]


def _plain(file):
    data = file.read_bytes()
    if file.suffix == ".xz":
        return lzma.decompress(data)
    if file.suffix == ".zst":
        return subprocess.run(["zstd", "-dc"], input=data, check=True, capture_output=True).stdout
    return data


def _archive(modules):
    if not BUSYBOX.exists():
        raise host.Failure("busybox-static is not installed; the initramfs is made from it")
    cpio = Cpio()
    for directory in ("bin", "dev", "proc", "root", "modules"):
        cpio.add(directory, stat.S_IFDIR | 0o755)
    cpio.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    cpio.add("bin/busybox", stat.S_IFREG | 0o755, BUSYBOX.read_bytes())
    cpio.add("init", stat.S_IFREG | 0o755, (host.GUEST / "initramfs-init").read_bytes())
    for number, file in enumerate(modules):
        cpio.add(f"modules/{number:02}-{file.name.split('.ko')[0]}.ko", stat.S_IFREG | 0o644,
                 _plain(file))
    return cpio.finish()


class Cpio:
    """The `newc` archive format that the kernel unpacks."""

    def __init__(self):
        self._out = bytearray()
        self._inode = 0

    def add(self, name, mode, data=b"", device=(0, 0)):
        """One more file, directory or device."""
        self._inode += 1
        path = name.encode() + b"\0"
        fields = (self._inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        self._out += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self._align()
        self._out += data
        self._align()

    def _align(self):
        self._out += bytes(-len(self._out) % 4)

    def finish(self):
        """The whole archive."""
        self.add("TRAILER!!!", 0)
        return bytes(self._out)
