#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Becomes a command in a tree of the Debian release that has Open MPI 5.0 (scripts/vmlib/chroot.py): same
process, same environment, its own network with nothing but loopback, unless --same-network leaves it where it is.

    inside.py --build build/release -- mpirun.openmpi -n 2 ./program

Seen inside at their own paths: the build, /tmp, /proc, /dev, /sys. Libraries that the build needs and
the tree does not have are those of this release.
"""
import argparse
import ctypes
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
from vmlib import chroot, host  # noqa: E402

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
TREE = "trixie-openmpi"
FORTRAN = ("libgfortran.so.5", "libquadmath.so.0") # what programs in Fortran need
SKIPPED = 77 # as the tests' CMakeLists says


def prefix(build, *options):
    """What stands in front of a command that shall run in the tree."""
    return [sys.executable, "-B", str(Path(__file__).resolve()), "--build", str(build), *options, "--"]


def is_job(pid):
    """Whether the process has become a job's launcher."""
    try:
        return b"\0CRYO_JOB=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def tree():
    """Where it is; a test that cannot have it is skipped."""
    try:
        return chroot.get(TREE)
    except host.Failure as failure:
        print(f"no Open MPI 5.0 here: {failure}", file=sys.stderr)
        sys.exit(SKIPPED)


def environment(build, scratch):
    """What programs inside need. Puts this release's libraries into the directory `scratch`."""
    borrowed = Path(scratch) / "libraries"
    borrowed.mkdir(exist_ok=True)
    root = tree()
    fortran = [Path("/usr/lib/x86_64-linux-gnu") / name for name in FORTRAN]
    for path in [*needed_libraries(Path(build)), *fortran]:
        if path.exists() and not (root / "usr/lib/x86_64-linux-gnu" / path.name).exists():
            (borrowed / path.name).write_bytes(path.read_bytes())
    return {"PATH": "/usr/bin:/usr/sbin", "LD_LIBRARY_PATH": str(borrowed)}


def needed_libraries(build):
    programs = [*(build / "bin").iterdir(), *(build / "lib" / "cryo").iterdir()]
    told = subprocess.run(["ldd", *(p for p in programs if p.is_file())], text=True, check=False,
                          capture_output=True).stdout
    return {Path(path) for path in re.findall(r"=> (/\S+)", told)}


def leave(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = bytearray(struct.pack("16sH22x", b"lo", 0))
        fcntl.ioctl(any_socket, SIOCGIFFLAGS, request)
        flags = struct.unpack_from("H", request, 16)[0] | IFF_UP
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags))


def mount(*options):
    subprocess.run(["mount", *options], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--same-network", action="store_true", help="of root")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    root = tree()
    if options.same_network:
        leave(CLONE_NEWNS)
    elif os.geteuid() == 0:
        leave(CLONE_NEWNS | CLONE_NEWNET)
    else:
        user, group = os.geteuid(), os.getegid()
        leave(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    if not options.same_network:
        loopback_up()
    mount("--make-rprivate", "/")
    here = os.getcwd()
    for path in ("/proc", "/dev", "/sys", "/tmp", str(options.build.resolve())):
        place = f"{root}{path}"
        os.makedirs(place, exist_ok=True)
        mount("--rbind", path, place)
    os.chroot(root)
    os.chdir(here if os.path.isdir(here) else "/")
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    main()
