# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of the running program: it is saved, and goes on from there when it is brought back.

    import cryo

    @cryo.after_restart
    def reconnect():
        server.open()

    for step in range(steps):
        with cryo.critical():           # no checkpoint in here
            server.send(step)
        if step % 1000 == 0 and cryo.checkpoint("state.image"):
            print("restarted for the", cryo.restarts(), "th time")

The program is started by `cr_run python3 program.py`, and brought back by `cr_restart state.image`.
A program can import this module wherever it runs: where it cannot be saved, checkpoint() raises
cryo.Error, which says why, and everything else does nothing. docs/python.md has the whole story.
"""
import atexit
import contextlib
import errno
import os
import stat
import sys
import threading
import types

try:
    from . import _cryo
except ImportError as problem: # libcr.so.0 is not there
    _cryo = None
    _reason = f"Cryo's library cannot be loaded: {problem}; install the package cryo"
else:
    _reason = None
    try:
        _cryo.init()
    except _cryo.Failure as problem:
        _reason = f"this process cannot take part in checkpoints: {problem.strerror}"

__all__ = ["Error", "after_checkpoint", "after_restart", "available", "before_checkpoint", "checkpoint",
           "checkpoint_job", "critical", "restarted", "restarts", "under_cr_run"]
__version__ = _cryo.version() if _cryo else None


class Error(Exception):
    """No checkpoint. `code` is an errno, or one of libcr.h's codes; 0 where there is none."""

    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


def available():
    """Whether there is a library of Cryo's that this process can take part with."""
    return _reason is None


def under_cr_run():
    """Whether cr_run has started the program, which then can be saved from its beginning on."""
    return available() and _cryo.preloaded()


def restarts():
    """How often this process has been restored from an image."""
    return _cryo.restarts() if available() else 0


def restarted():
    """Whether this process has been restored from an image."""
    return restarts() > 0


# --- Callbacks -------------------------------------------------------------------------------

_before, _after, _again = [], [], []
_thread = types.SimpleNamespace(name="of Cryo's callbacks") # for messages
_listening = threading.RLock() # a handler may interrupt its owner
_objection = None # what the last callback that did not want a checkpoint has raised


def before_checkpoint(function):
    """Decorator: called before each checkpoint, last registered first. One that raises an exception
    prevents the checkpoint, and the program goes on."""
    return _register(_before, function)


def after_checkpoint(function):
    """Decorator: called where the program goes on after a checkpoint, or after one that has failed,
    first registered first."""
    return _register(_after, function)


def after_restart(function):
    """Decorator: called in the restored program, first registered first. One that raises an exception
    ends the restored program, and cr_restart fails."""
    return _register(_again, function)


def _register(where, function):
    if not callable(function):
        raise TypeError(f"a callback is a function, not {function!r}")
    _refuse_generators(function, "callback")
    if available():
        try:
            _listen()
        except _cryo.Failure as problem:
            raise Error(f"no callbacks: {problem.strerror}", problem.errno) from None
    where.append(function)
    return function


def _listen():
    with _listening:
        _cryo.listen(_get_ready, _go_on)


def _refuse_generators(function, what):
    import inspect # large, and needed by few programs  pylint: disable=import-outside-toplevel
    if (inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)):
        raise TypeError(f"{function!r} is no {what}: to call a generator function or an async def does not run it")


def _get_ready():
    """In libcr's thread, as everything below: whether a checkpoint may be taken."""
    global _objection
    _objection = None
    for function in reversed(tuple(_before)):
        try:
            function()
        except BaseException as problem: # pylint: disable=broad-except
            _objection = problem
            _report(problem)
            return False
    return True


def _go_on(restored):
    """Whether the program may go on."""
    for function in tuple(_again if restored else _after):
        try:
            function()
        except BaseException as problem: # pylint: disable=broad-except
            _report(problem)
            if restored:
                return False
    return True


def _report(problem):
    try:
        if isinstance(problem, SystemExit): # the hook says nothing of it
            print(f"Exception in a callback of Cryo's: {problem!r}", file=sys.stderr)
        threading.excepthook(threading.ExceptHookArgs(
            (type(problem), problem, problem.__traceback__, _thread)))
    except BaseException as another: # pylint: disable=broad-except
        sys.__excepthook__(type(another), another, another.__traceback__)
    with contextlib.suppress(Exception):
        sys.stderr.flush() # a restored program that is ended flushes nothing


# --- Critical sections -----------------------------------------------------------------------

class _Critical(contextlib.ContextDecorator, _cryo.Section if available() else contextlib.nullcontext):
    def __call__(self, function):
        _refuse_generators(function, "critical section")
        return super().__call__(function)


_critical = _Critical()


def critical():
    """`with cryo.critical():` no checkpoint begins in here, and no callback is called; one that is
    asked for meanwhile is taken at the end. `@cryo.critical()` makes a whole function such a section.
    They may be nested, and used in several threads at once."""
    return _critical


# --- Checkpoints -----------------------------------------------------------------------------

_DELTAS = ("auto", "incremental", "differential")
_unfinished = {} # image by request, of those whose wait was broken off, by Ctrl-C say


def checkpoint(path=None, *, tree=False, timeout=0, delta=None, save_all=False):
    """Saves this process, as it is now. Returns False when the image is complete and the program goes
    on, and True in the restored program, which begins here.

    path      the image, which is replaced when the new one is complete, and no symbolic link; None:
              context.PID in the working directory
    tree      with its descendants
    timeout   whole seconds, after which it is given up; 0: never
    delta     "auto", "incremental" or "differential": without what earlier images of other names have
    save_all  with the files that are mapped, so that a restart does not need them

    Raises Error where there is no image: the program goes on as if nothing had been asked for.
    """
    if delta is not None and delta not in _DELTAS:
        raise ValueError(f"delta={delta!r}: it is one of {', '.join(_DELTAS)}")
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 0 <= timeout < 2 ** 31:
        raise ValueError(f"timeout={timeout!r}: it is a number of whole seconds")
    _refuse_here()
    _cryo.settle() # while one is under way, the request would wait, and obey no signal
    _reap_unfinished()
    flags = _cryo.DUMP_ALL if save_all else 0
    if delta is not None:
        flags |= getattr(_cryo, f"DELTA_{delta.upper()}")
    code, messages = _request(_Image(path), tree, timeout, flags)
    _cryo.settle() # all callbacks have ended
    if _succeeds(code):
        return code != 0
    objection = _objection if code == _cryo.ETEMPFAIL else None
    raise Error(_sentence(code, messages, objection), code) from objection


def _refuse_here():
    if not available():
        raise Error(_reason, errno.ENOSYS)
    if _cryo.called_back():
        raise Error("no checkpoint is taken from within a callback of another one", errno.EBUSY)
    if _cryo.inside():
        raise Error("no checkpoint is taken from within a critical section: leave it first", errno.EDEADLK)


def _reap_unfinished():
    for handle in tuple(_unfinished):
        image = _unfinished.pop(handle, None) # from here on it is no other thread's
        if image is None:
            continue
        result = _cryo.reap(handle)
        if result is None:
            _unfinished[handle] = image
        else:
            image.close(keep=_succeeds(result[0]))


def _request(image, tree, timeout, flags):
    """What became of a request: a code, and messages."""
    handles = [] # one at most
    try:
        # Of a process without a callback on a thread, libcr promises an image of this very moment: the
        # request would return when no other thread is in a section, whatever signals come until then.
        _listen()
        _cryo.request(handles, image.fd, tree, timeout, flags)
        _cryo.await_(*handles)
    except BaseException as problem:
        if handles:
            _unfinished[handles[0]] = image # whose number means the image for as long as the request is there
        else:
            image.close(keep=False)
        if not isinstance(problem, _cryo.Failure):
            raise
        if problem.errno == errno.ENOENT:
            return problem.errno, "Cryo's commands are not where its library is: install the package cryo"
        return problem.errno, ""
    code = 0
    try:
        code, messages = _cryo.reap(*handles)
    finally:
        image.close(keep=_succeeds(code))
    return code, messages


def _succeeds(code):
    return code in (0, _cryo.ERESTARTED)


def _sentence(code, messages, objection):
    if objection is not None:
        return f"a callback does not want a checkpoint now: {type(objection).__name__}: {objection}"
    lines = [line.removeprefix("cr_checkpoint: ").strip() for line in messages.splitlines()]
    return " ".join(filter(None, lines)) or f"no checkpoint: {_cryo.describe(code)}"


class _Image:
    """Where an image goes: an open file, or the working directory. A file that was made for it goes
    again if there is no image. A link is not followed, as by cr_restart."""

    def __init__(self, path):
        self.fd = _cryo.DEST_CWD
        self.made = None # the directory, if there was no such file
        if path is None:
            return
        self.path = os.fspath(path)
        how = os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
        try:
            directory = self._open_directory()
            try:
                self.fd = os.open(self.path, how | os.O_CREAT | os.O_EXCL, 0o400)
                self.made = _identity(directory)
            except FileExistsError:
                self.fd = _open_existing(self.path, how)
            finally:
                os.close(directory) # open, it would be part of the image
        except OSError as problem:
            why = ("is a symbolic link, which is not followed: name the image itself"
                   if problem.errno == errno.ELOOP and os.path.islink(self.path) else problem.strerror)
            raise Error(f"{os.fsdecode(self.path)}: {why}", problem.errno) from None

    def _open_directory(self):
        return os.open(os.path.dirname(self.path) or os.curdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self, keep):
        if self.fd == _cryo.DEST_CWD:
            return
        if self.made is not None and not keep:
            with contextlib.suppress(OSError):
                self._remove()
        os.close(self.fd)

    def _remove(self):
        """In the very directory in which it was made: another one may have its name by now."""
        directory = self._open_directory()
        try:
            name = os.path.basename(self.path)
            there = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if (_identity(directory) == self.made and there.st_size == 0
                    and (there.st_dev, there.st_ino) == _identity(self.fd)):
                os.unlink(name, dir_fd=directory)
        finally:
            os.close(directory)


def _open_existing(path, how):
    try:
        fd = os.open(path, how)
    except PermissionError: # an earlier image is protected even from its owner
        return _open_protected(path, how)
    owner = os.fstat(fd).st_uid
    if owner not in (os.geteuid(), 0): # a FIFO, or a file that has lost its name when the image is written
        os.close(fd)
        raise PermissionError(errno.EACCES, f"belongs to user {owner}, who could get the image: name another file")
    return fd


def _open_protected(path, how):
    seen = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        status = os.fstat(seen)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        mode = stat.S_IMODE(status.st_mode)
        os.fchmod(seen, mode | stat.S_IWUSR)
        try:
            return os.open(f"/proc/self/fd/{seen}", how & ~os.O_NOFOLLOW)
        finally:
            os.fchmod(seen, mode)
    finally:
        os.close(seen)


def _identity(fd):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def checkpoint_job():
    """Saves the whole MPI job that this process is a rank of. All ranks call it, in the same order
    relative to their other calls of MPI, as they would Barrier(). Returns False when all ranks' images
    are taken, and True in the restored job, which ompi-restart brings back. Raises Error where nothing
    was saved."""
    _refuse_here()
    before = restarts()
    done = _cryo.save_job()
    _cryo.settle() # all callbacks have ended
    if done == _cryo.JOB_NOT_COVERED:
        raise Error("this is no rank of an MPI job that Cryo knows: start it by cr_run mpirun, and initialize"
                    " MPI first", errno.ENOSYS)
    if done == _cryo.JOB_FAILED:
        raise Error("the job was not saved; ompi-checkpoint with the pid of its launcher tells why")
    return restarts() > before


# --- The end, and children -------------------------------------------------------------------

def _forget():
    """In a child made by fork, which has no callbacks and no requests."""
    global _listening
    _listening = threading.RLock() # a thread that the child does not have may own it
    for what in (_before, _after, _again, _unfinished):
        what.clear()
    _cryo.forked()


if available():
    os.register_at_fork(after_in_child=_forget)
    atexit.register(_cryo.deafen)
