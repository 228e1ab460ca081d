# SPDX-License-Identifier: Apache-2.0
"""Looking at and ending the processes that a test started, and no others.

    processes.adopt_orphans()           # once: what the tests leave behind becomes our child
    processes.kill_family(os.getpid())  # every living descendant, and waits until all are gone
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes this process the parent of every orphan of its tests."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_with_parent(number):
    """By this signal."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def have_own_ipc():
    """Of root: System V objects and message queues of our own, which go away with us."""
    new_ipc = 0x08000000
    if os.geteuid() == 0:
        ctypes.CDLL(None).unshare(new_ipc)  # where it is not allowed, tests remove their own


def have_own_network():
    """Of root: a network of our own, of the loopback interface alone, in which nobody else takes a
    port that was freed for a moment. False: where it is not allowed."""
    new_network, up, set_flags = 0x40000000, 1, 0x8914
    # Ours does not begin with what is set for all of the machine, and must not grant or hold less.
    settings = {}
    for name in ("ipv4/ping_group_range", "unix/max_dgram_qlen"):
        try:
            with open(f"/proc/sys/net/{name}", encoding="ascii") as file:
                settings[name] = file.read()
        except OSError:
            pass  # this kernel does not have it
    if os.geteuid() != 0 or ctypes.CDLL(None).unshare(new_network) != 0:
        return False
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))
    for name, value in settings.items():
        try:
            with open(f"/proc/sys/net/{name}", "w", encoding="ascii") as file:
                file.write(value)
        except OSError:
            pass  # in a container: what needs it is left out
    return True


def become_plain_user(directory, uid=1000):
    """Of root: nobody in particular, for good. A test is skipped where that user may not see it."""
    if os.geteuid() != 0:
        return
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    os.environ["HOME"] = "/"
    # What belongs to us in /proc is root's again otherwise.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    if not os.access(os.path.join(directory, "cr_restart"), os.X_OK):
        print(f"left out: user {uid} may not see {directory}")
        sys.exit(77)


def keep_ids():
    """Whether old pids are to be had: by a privilege, or from the module."""
    return os.geteuid() == 0 or os.access("/dev/cryo", os.W_OK)


def _stat(pid):
    """(state, parent) of a process, or None if it is gone. One whose first thread alone has ended is
    no zombie, and sleeps."""
    number_of_threads = 20 - 3
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        goes_on = fields[0] == "Z" and int(fields[number_of_threads]) > 1
        return "S" if goes_on else fields[0], int(fields[1])
    except (OSError, IndexError):
        return None


def state(pid):
    """The state letter of a process, or None."""
    found = _stat(pid)
    return found[0] if found else None


def exists(pid):
    """Not so for a zombie: in a container nobody may collect what has lost its parent."""
    return state(pid) not in (None, "Z", "X")


def parent(pid):
    """None: it is gone."""
    found = _stat(pid)
    return found and found[1]


def waits_of(pid):
    """How often it has waited, which a program that does something does again and again; or None."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) for line in file
                        if line.startswith("voluntary_ctxt_switches"))
    except (OSError, StopIteration):
        return None


def children(parent):
    """The children of a process, zombies included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _stat(name)
            if stat and stat[1] == parent:
                found.append(int(name))
    return found


def family(root):
    """All descendants of a process, parents before children."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = _stat(name)
            if stat and stat[0] != "Z":
                parents.setdefault(stat[1], []).append(int(name))
    found, next_ones = [], [root]
    while next_ones:
        next_ones = [pid for parent in next_ones for pid in parents.get(parent, [])]
        found += next_ones
    return found


def is_descendant(pid, root):
    while pid not in (root, 0):
        stat = _stat(pid)
        if stat is None:
            return False
        pid = stat[1]
    return pid == root


def kill(pid, root):
    """Kills a descendant of ROOT. Since it was found it may have ended, and a program that another
    test brings back may have its number."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if is_descendant(pid, root):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def kill_family(root):
    """Kills every descendant of ROOT until none lives, and reaps those that are ours."""
    while members := family(root):
        for pid in members:
            kill(pid, root)
        reap()
    reap()


def reap(keep=()):
    """Collects the exit status of adopted orphans; children in KEEP are somebody's to wait for."""
    for pid in children(os.getpid()):
        if pid not in keep and state(pid) == "Z":
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass


def describe(root):
    """What a process and its descendants are doing, for a person who reads a failed test."""
    lines = []
    for pid in [root, *family(root)]:
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                lines.append(f"process {pid} ({file.read().strip()})")
            for tid in sorted(os.listdir(f"/proc/{pid}/task"), key=int)[:20]:
                line = f"  thread {tid}:"
                for what in ("syscall", "wchan"):
                    try:
                        with open(f"/proc/{pid}/task/{tid}/{what}", encoding="ascii") as file:
                            line += f" {what} {file.read().split(' ')[0].strip()}"
                    except OSError:
                        pass
                lines.append(f"{line} state {state(tid)}")
        except OSError:
            lines.append(f"process {pid} is gone")
    return "\n".join(lines)
