# SPDX-License-Identifier: Apache-2.0
"""What a machine must have for some of the test programs, each asked in one function.

    missing = needs.unmet(["avx512", "hugetlb"])    # the names that this machine does not meet
"""

import ctypes
import mmap
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys

CPU_FLAGS_FILE = "/proc/cpuinfo"


def _read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _cpu_flag(flag):
    for line in _read(CPU_FLAGS_FILE).splitlines():
        if line.startswith("flags"):
            return flag in line.split()
    return False


def _huge_pages():
    values = dict(line.split(":", 1) for line in _read("/proc/meminfo").splitlines() if ":" in line)
    free = int(values.get("HugePages_Free", "0").split()[0])
    extra = _read("/proc/sys/vm/nr_overcommit_hugepages").strip()
    return free >= 5 or int(extra or 0) >= 5


def _huge_files():
    return any(line.split()[1:3] == ["/dev/hugepages", "hugetlbfs"]
               for line in _read("/proc/mounts").splitlines()) and \
        os.access("/dev/hugepages", os.W_OK)


def _thp():
    return "[never]" not in _read("/sys/kernel/mm/transparent_hugepage/enabled")


def _capability(number):
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def _reads_filters():
    """The kernel tells filters of system calls to root alone, not in a user namespace, and to nobody
    under one."""
    map_of_all = _read("/proc/self/uid_map").split() == ["0", "0", "4294967295"]
    return _capability(21) and map_of_all and "\nSeccomp:\t0\n" in _read("/proc/self/status")


def _module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], check=False,
                          stderr=subprocess.DEVNULL).returncode == 0


def _system_call(number, *arguments, close=True):
    """True unless the kernel does not know the call, or forbids it to this user."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result >= 0:
        if close:
            os.close(result)
        return True
    return ctypes.get_errno() not in (38, 1, 13)  # ENOSYS, EPERM, EACCES


def _accepted(number, *arguments):
    """True if the system call does not fail."""
    return ctypes.CDLL(None).syscall(ctypes.c_long(number), *arguments) != -1


def _socket(kind, protocol, family=socket.AF_INET):
    """True if this user may open such a socket, and the kernel has them."""
    try:
        with socket.socket(family, kind, protocol):
            return True
    except OSError:
        return False


def _chooses_speculation():
    """Whether a process may switch off that loads pass stores (PR_SPEC_STORE_BYPASS)."""
    return ctypes.CDLL(None).syscall(ctypes.c_long(157), 52, 0, 0, 0, 0) & 1 == 1


def _traps_cpuid():
    """Whether the instruction CPUID can be a signal for a process (ARCH_SET_CPUID)."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return any("cpuid_fault" in line.split() for line in file if line.startswith("flags"))


def _tells_segment_limit():
    """Of a socket without a connection, from Linux 6.2 on."""
    with socket.socket() as fresh:
        fresh.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
        return fresh.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) == 1000


def _kernel(*release):
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= release


def _packet_diag():
    """True if the kernel tells of packet sockets: a dump of none of them ends without an error."""
    header = struct.pack("=IHHII", 36, 20, 0x301, 1, 0)  # SOCK_DIAG_BY_FAMILY, a dump
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as netlink:
            netlink.settimeout(5)
            netlink.send(header + struct.pack("=BBHIIII", socket.AF_PACKET, 0, 0, 0, 0, 0, 0))
            return struct.unpack_from("=IH", netlink.recv(65536))[1] != 2  # NLMSG_ERROR
    except OSError:
        return False


def _droppable():
    try:
        with mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_ANONYMOUS | 8):
            return True
    except OSError:
        return False


def _ksm():
    return os.path.exists("/sys/kernel/mm/ksm/run")


def _open_files(count):
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= count


CHECKS = {
    "avx": lambda: _cpu_flag("avx"),
    "avx512": lambda: _cpu_flag("avx512f"),
    "pku": lambda: _cpu_flag("ospke"),
    "amx": lambda: _cpu_flag("amx_tile"),
    "hugetlb": _huge_pages,
    "hugetlbfs": lambda: _huge_pages() and _huge_files(),
    "thp": _thp,
    "ksm": _ksm,
    "memory-merge": lambda: _accepted(157, 67, 0, 0, 0, 0),
    "guards": lambda: _accepted(28, 0, 0, 102),
    "droppable": _droppable,
    "sys_nice": lambda: _capability(23),
    "two-cpus": lambda: len(os.sched_getaffinity(0)) >= 2,
    "open-files-2000": lambda: _open_files(2000),
    "ping": lambda: _socket(socket.SOCK_DGRAM, 1),
    "net_raw": lambda: _socket(socket.SOCK_RAW, 253),
    "packet": lambda: _socket(socket.SOCK_RAW, 0, socket.AF_PACKET),
    "packet_diag": _packet_diag,
    "udp_lite": lambda: _socket(socket.SOCK_DGRAM, 136),
    "io_uring": lambda: _system_call(425, 1, ctypes.create_string_buffer(256)),
    "aio": lambda: os.path.exists("/proc/sys/fs/aio-max-nr"),
    "numa": lambda: os.path.exists("/proc/self/numa_maps"),
    "landlock": lambda: _accepted(444, 0, 0, 1),  # asks for the version
    "memfd_secret": lambda: _system_call(447, 0),
    "mseal": lambda: _system_call(462, 0, 0, 0, close=False),
    "root": lambda: _capability(7),
    "reads_filters": _reads_filters,
    "keyrings": lambda: _accepted(250, 0, -2, 1),
    "dnotify": lambda: _read("/proc/sys/fs/dir-notify-enable").strip() == "1",
    "cpuid_fault": _traps_cpuid,
    "io_flusher": lambda: _accepted(157, 58, 0, 0, 0, 0),
    "mdwe": lambda: _accepted(157, 66, 0, 0, 0, 0),
    "mdwe_no_inherit": lambda: _kernel(6, 6),  # trying it out could not be undone
    "time_slice": lambda: _kernel(6, 12),
    "speculation": _chooses_speculation,
    "segment_limit": _tells_segment_limit,
    "loginuid": lambda: _read("/proc/self/loginuid").strip() == "4294967295",
    "user_dispatch": lambda: _accepted(157, 59, 0, 0, 0, 0),
    "userfaultfd": lambda: _system_call(323, 1 | os.O_CLOEXEC),
    "perf": lambda: "perf_event" in " ".join(os.listdir("/sys/bus/event_source/devices"))
            or int(_read("/proc/sys/kernel/perf_event_paranoid").strip() or 9) <= 2,
    "bpf": lambda: _capability(21) or _capability(39),
    "fuse": lambda: os.access("/dev/fuse", os.R_OK | os.W_OK),
    "sysvipc": lambda: os.path.exists("/proc/sysvipc/shm"),
    "mqueue": lambda: os.path.exists("/proc/sys/fs/mqueue"),
    "openmp": lambda: True,
    "perl": lambda: shutil.which("perl") is not None,
    "java": lambda: shutil.which("java") is not None,
    "python-numpy": lambda: _module("numpy"),
}


def unmet(names):
    """The needs among NAMES that this machine does not meet."""
    return [name for name in names if not CHECKS[name]()]
