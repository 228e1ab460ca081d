# SPDX-License-Identifier: Apache-2.0
"""Whether every thread of a program goes on after a checkpoint that came to nothing.

    before = progress.look(pid)         # of the process and all its descendants
    ... a checkpoint that is refused, or called off ...
    progress.await_all(before, 8)       # raises Stuck, which names the threads that stand still

A thread that Cryo has stopped is in Cryo's signal handler, in which every signal is blocked, and
sleeps in a system call of Cryo's library. It goes on when neither is so that was not so before.
"""

import os
import time

import processes
from waiting import Patience

UNTIL_ENDED = ("Z", "X", None)


class Stuck(Exception):
    """Some thread stands still; the text says which, and where."""


def _read(tid, name):
    try:
        with open(f"/proc/{tid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _library_of(pid):
    """The addresses of Cryo's library in the process."""
    ranges = []
    for tid in _threads(pid):  # the first may have ended, and has no memory then
        for line in _read(tid, "maps").splitlines():
            if "/libcr" in line and ".so" in line:
                start, end = line.split(" ", 1)[0].split("-")
                ranges.append((int(start, 16), int(end, 16)))
        if ranges:
            break
    return ranges


def _threads(pid):
    try:
        return sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def _blocks_all(tid):
    """As in Cryo's handler: SIGKILL and SIGSTOP cannot be blocked."""
    for line in _read(tid, "status").splitlines():
        if line.startswith("SigBlk:"):
            return int(line.split()[1], 16) | 1 << 8 | 1 << 18 == (1 << 64) - 1
    return False


def _place(tid, library):
    """Whether it sleeps in a system call of Cryo's library."""
    words = _read(tid, "syscall").split()
    if not words or words[0] == "running":
        return False
    at = int(words[-1], 16)
    return any(start <= at < end for start, end in library)


def look(root):
    """{(process, thread): (blocks all, is in Cryo's library)} of a process and its descendants."""
    found = {}
    for pid in [root, *processes.family(root)]:
        library = _library_of(pid)
        for tid in _threads(pid):
            found[pid, tid] = (_blocks_all(tid), _place(tid, library))
    return found


def _stuck(before):
    """Those threads of the look that are where only Cryo brings a thread."""
    libraries = {}
    stuck = []
    for (pid, tid), (blocked, was_inside) in before.items():
        if processes.state(tid) in UNTIL_ENDED:
            continue
        library = libraries.setdefault(pid, _library_of(pid))
        if (not blocked and _blocks_all(tid)) or (not was_inside and _place(tid, library)):
            stuck.append((pid, tid))
    return stuck


def await_all(before, patience):
    """Waits until every thread of the look goes on, or has ended."""
    left = list(before)
    limit = Patience(patience)
    # One by one, each until it was seen outside: they need not be outside at the same moment.
    while left := _stuck({key: before[key] for key in left}):
        if limit.is_over():
            raise Stuck("\n".join(f"thread {tid} of process {pid} still stands after {patience} s: "
                                  f"{processes.describe(pid)}" for pid, tid in left))
        time.sleep(0.002)
