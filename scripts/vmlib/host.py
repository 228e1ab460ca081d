# SPDX-License-Identifier: Apache-2.0
"""What every part needs from the machine: places, messages, subprocesses, locks.

    with host.lock("kernel-6.12-cloud"):
        with host.work_dir() as tmp: ...
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

REPO = pathlib.Path(__file__).resolve().parents[2]
GUEST = pathlib.Path(__file__).resolve().parent / "guest"

_verbose = False


class Failure(Exception):
    """Something the person at the keyboard has to hear about: one sentence, with the way out."""


def set_verbose(on):
    """Lets note() speak."""
    global _verbose
    _verbose = on


def say(text):
    """A line for the person, always."""
    print(f"vm: {text}", file=sys.stderr, flush=True)


def note(text):
    """A line for the person, with --verbose."""
    if _verbose:
        say(text)


def cache():
    """The directory that outlives builds and checkouts."""
    base = os.environ.get("CRYO_CACHE")
    if not base:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        base = os.path.join(home, "cryo")
    path = pathlib.Path(base).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def lock(name):
    """One process at a time works on the thing called `name` in the cache."""
    directory = cache() / "locks"
    directory.mkdir(exist_ok=True)
    with open(directory / name, "w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that works on {name}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def work_dir():
    """A scratch directory on the cache's file system, so that results can be renamed into place."""
    base = cache() / "tmp"
    base.mkdir(exist_ok=True)
    path = pathlib.Path(tempfile.mkdtemp(dir=base))
    try:
        yield path
    finally:
        remove(path)


def remove(path):
    """Deletes a tree, also one with read-only directories in it."""
    def unlock(function, name, _):
        os.chmod(os.path.dirname(name), 0o700)
        function(name)
    if path.is_symlink() or path.exists():
        shutil.rmtree(path, onerror=unlock)


def replace(new, place):
    """Puts the finished tree `new` where `place` is; an old one there goes away."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        with work_dir() as bin_dir:
            place.rename(bin_dir / "old")
            new.rename(place)
    else:
        new.rename(place)


def run(argv, what, **kwargs):
    """Runs a tool; its output is shown only when it fails. Returns its stdout."""
    try:
        done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              text=True, errors="replace", check=False,
                              preexec_fn=die_with_parent(), **kwargs)
    except FileNotFoundError as missing:
        raise Failure(f"{what}: {missing.filename} is not installed; run scripts/test once, "
                      "or install it from the distribution") from missing
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise Failure(f"{what} failed (exit status {done.returncode}):\n{tail}")
    return done.stdout


def die_with_parent(sig=signal.SIGKILL):
    """For preexec_fn: the child gets `sig` when its parent is gone, however that went."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def arm():
        pr_set_pdeathsig = 1
        libc.prctl(pr_set_pdeathsig, int(sig))
        if os.getppid() != parent:
            os._exit(1)
    return arm


def as_root(argv):
    """The command that runs argv as root: argv itself, or through sudo."""
    if os.geteuid() == 0:
        return argv
    if shutil.which("sudo") is None:
        raise Failure(f"{argv[0]} needs root: run as root, or install sudo")
    return ["sudo", *argv]


def cores():
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0))
