# SPDX-License-Identifier: Apache-2.0
"""The disk that every machine of the tour begins with: Debian 12 as a cluster has it before Cryo comes, with
systemd, ssh, NFS, munge, Slurm, Open MPI, Prometheus, and apt that finds what Cryo's packages need.

    disk = image.get(debs)
    disk.disk, disk.vmlinuz, disk.initrd, disk.key

It is made once and kept in the cache; machines write to scratch beside it.
"""

import dataclasses
import hashlib
import os
import pathlib
import shutil

from vmlib import clean, host, manifest

SUITE = "bookworm"
SIZE = "3G"
CLUSTER = pathlib.Path(__file__).resolve().parent / "cluster"
PACKAGES = [
    "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "procps", "initramfs-tools", "linux-image-cloud-amd64",
    "openssh-server", "openssh-client", "python3", "python3-apt", "nfs-kernel-server", "nfs-common",
    "munge", "slurmctld", "slurmd", "slurm-client", "openmpi-bin", "libopenmpi-dev", "gcc", "libc6-dev",
    "dkms", "linux-headers-cloud-amd64", "prometheus",
]


@dataclasses.dataclass(frozen=True)
class Disk:
    """What a machine is started from."""
    place: pathlib.Path

    @property
    def disk(self):
        """Its file system, which is only read."""
        return self.place / "disk"

    @property
    def vmlinuz(self):
        """The kernel in it."""
        return self.place / "vmlinuz"

    @property
    def initrd(self):
        """What that kernel begins with."""
        return self.place / "initrd.img"

    @property
    def key(self):
        """The private key that lets root in."""
        return self.place / "key"


def _key(debs):
    digest = hashlib.sha256("\n".join(PACKAGES + [SIZE]).encode())
    for deb in sorted(debs, key=os.path.basename):
        digest.update(host.run(["dpkg-deb", "-f", deb, "Package", "Depends"], "dpkg-deb").encode())
    for path in [pathlib.Path(__file__), *sorted(CLUSTER.iterdir())]:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def get(debs):
    """The disk, made when it is missing, when it is damaged, or when Cryo's packages need others than before."""
    place = host.cache() / "tour" / "disk"
    key = _key(debs)
    if (manifest.read(place) or {}).get("key") != key:
        with host.lock("tour-disk"):
            if (manifest.read(place) or {}).get("key") != key:
                _make(debs, key, place)
    return Disk(place)


def _make(debs, key, place):
    with host.work_dir() as tmp, clean.System(SUITE) as system:
        new = tmp / "disk"
        new.mkdir()
        _install(system, debs)
        host.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tour", "-f", new / "key"], "ssh-keygen")
        _set_up(system, new)
        _pack(system.root, new)
        manifest.seal(new, key=key)
        host.replace(new, place)


def _install(system, debs):
    system.offer(debs, PACKAGES)
    system.run(["apt-get", "install", *PACKAGES])
    # What is left is what Cryo's packages need. Those themselves come from Ansible.
    installed = set(system.run(["dpkg-query", "-W", "-f", "${Package}\\n"]).split())
    place = system.root / "packages"
    names = {os.path.basename(deb) for deb in debs}
    for deb in place.glob("*.deb"):
        if deb.name in names or deb.name.partition("_")[0] in installed:
            deb.unlink()
    (place / "Packages").write_text(host.run(["dpkg-scanpackages", "--multiversion", "."],
                                             "dpkg-scanpackages", cwd=place))
    system.run(["apt-get", "update"])


def _set_up(system, new):
    offered = system.root / "tmp" / "cluster"
    shutil.copytree(CLUSTER, offered)
    shutil.copy(new / "key.pub", offered)
    system.run(["sh", "-eu", "/tmp/cluster/set-up"])
    shutil.rmtree(offered)


def _pack(root, new):
    for name in ("vmlinuz", "initrd.img"):
        found = sorted((root / "boot").glob(f"{name}-*"))[-1]
        host.run(host.as_root(["cp", found, new / name]), "cp")
    host.run(host.as_root(["mke2fs", "-q", "-t", "ext4", "-L", "cryo-tour", "-d", root, new / "disk", SIZE]),
             "mke2fs")
    owner = f"{os.getuid()}:{os.getgid()}"
    host.run(host.as_root(["chown", "-R", owner, new]), "chown")
