# SPDX-License-Identifier: Apache-2.0
"""Programs that are saved and brought back for measurement, and the commands that do it.

    with Cryo(bin_directory, patient).start(512, "small") as program:
        gap = program.ask("f")
        figures = cryo.checkpoint(program, "image", "--snapshot=stop")
    program = cryo.restart("image")
"""
import ctypes
import json
import os
import subprocess
import time


PR_SET_CHILD_SUBREAPER = 36


class Wrong(Exception):
    """A result is not what it has to be."""


class Patient:
    """A running patient.c, or the cr_restart that brought it back."""

    def __init__(self, command):
        # Sessions of their own: a signal to the bench is none to them.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        start_new_session=True)
        self.pid = self.process.pid

    def ask(self, letter):
        """The number that it answers."""
        self.process.stdin.write(letter.encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise Wrong(f"the program did not answer {letter}: status {self.process.wait()}")
        return int(line)

    def change(self, every):
        """A word of each so-many-th page."""
        self.ask(f"e{every}\n")

    def check(self):
        wrong = self.ask("c")
        if wrong:
            raise Wrong(f"{wrong} words of the program's memory are wrong")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """As it ends by itself, which its members do with it."""
        if self.process.poll() is None:
            self.process.stdin.write(b"q")
        self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        return status


class Cryo:
    """The commands of one build. The images lie in the current directory."""

    def __init__(self, directory, program, backend=()):
        self.directory = directory
        self.program = program
        self.backend = list(backend)
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError("PR_SET_CHILD_SUBREAPER")

    def command(self, name):
        return os.path.join(self.directory, name)

    def start(self, mib, pages="small", children=0, of_children=0, under_cryo=True, more=()):
        words = [self.command("cr_run")] if under_cryo else []
        program = Patient([*words, self.program, str(mib), pages, str(children), str(of_children),
                           *more])
        program.ask("p")
        return program

    def checkpoint(self, program, image, *options):
        """What cr_checkpoint says in JSON, and "wall_ns" as it is seen from here."""
        remove(image)
        before = time.monotonic_ns()
        done = subprocess.run([self.command("cr_checkpoint"), "--json", *self.backend, *options,
                               "-f", image, str(program.pid)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False)
        wall = time.monotonic_ns() - before
        if done.returncode:
            raise Wrong(f"cr_checkpoint ended with {done.returncode}: {done.stderr}")
        return {**json.loads(done.stdout.splitlines()[-1]), "wall_ns": wall}

    def restart(self, image, *options):
        """The program, asleep: the first question shows that it is there. No other may run."""
        return Patient([self.command("cr_restart"), "-q", "--no-restore-sid", *self.backend, *options,
                        image])


def reap():
    """Waits for the frozen copies of programs that have ended: they still use their group's number."""
    try:
        while os.waitpid(-1, 0):
            pass
    except ChildProcessError:
        pass


def children():
    """Of this process: programs, and frozen copies of them."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as text:
        return {int(word) for word in text.read().split()}


def await_copies(but):
    """Until the frozen copies have ended, so that what they used is known; their page faults."""
    faults = 0
    while left := children() - set(but):
        for pid in left:
            faults += os.wait4(pid, 0)[2].ru_minflt
    return faults


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def forget(path):
    """Takes a file out of the kernel's cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


class Copy:
    """A file of memory with the contents of another; as a context it gives its path."""

    def __init__(self, path):
        self.fd = os.memfd_create("copy")
        with open(path, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            at = 0
            while at < size:
                at += os.sendfile(self.fd, source.fileno(), at, size - at)

    def __enter__(self):
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def __exit__(self, *_):
        os.close(self.fd)
