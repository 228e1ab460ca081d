# SPDX-License-Identifier: Apache-2.0
"""A directory with programs in it, and a command whose Nth system call fails.

    class Mine(scene.Scene):
        def prepare(self): ...                 # once, before the first command
        def command(self): ...                 # its words
        def verify(self, status): ...          # raises scene.Fault for what must not be
"""
import fcntl
import functools
import mmap
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402
import waiting  # noqa: E402

DEADLINE = 10  # what a user would wait for
PATIENCE = 30
BUSY = 1000  # calls within DEADLINE: what hangs looks around from time to time, and makes fewer
LIMIT = 30  # for what makes calls all the time, as ranks do that look for messages


class Fault(Exception):
    """What must not be."""


wait_until = functools.partial(waiting.wait_until, patience=PATIENCE, failure=Fault)


class Progress:
    """The calls that fail_nth has answered. Each costs two changes of process: a command that makes
    thousands of them is quick on an idle machine, and may need more than 10 s where others compute."""

    def __init__(self):
        self.fd = os.memfd_create("progress")
        os.ftruncate(self.fd, mmap.PAGESIZE)
        self.memory = mmap.mmap(self.fd, mmap.PAGESIZE)

    def calls(self):
        return int.from_bytes(self.memory[:8], "little")

    def close(self):
        self.memory.close()
        os.close(self.fd)

    def wait_until(self, what, condition):
        """For DEADLINE, and for as long as the command goes on making calls."""
        whole, silent = waiting.Patience(LIMIT), waiting.Patience(DEADLINE)
        start = since = time.monotonic()
        seen = self.calls()
        while not condition():
            if self.calls() >= seen + BUSY:
                silent, since, seen = waiting.Patience(DEADLINE), time.monotonic(), self.calls()
            if silent.is_over() or whole.is_over():
                now = time.monotonic()
                raise Fault(f"waited {now - start:.0f} s for {what}; {self.calls() - seen} calls in "
                            f"the last {now - since:.0f} s:\n{processes.describe(os.getpid())}")
            time.sleep(0.005)


def count_in(path):
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read() or 0)
    except (OSError, ValueError):
        return 0


def is_supervisor(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe").endswith("/fail_nth")
    except OSError:
        return False


class Scene:
    """A directory with programs in it, and a command that is disturbed."""

    children = 0
    sample = 12 # calls of each error that fail by default
    below = None # only calls of programs fail whose path begins so

    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.environment = dict(os.environ)
        self.progress = None  # of the command that is disturbed
        self.prepare()

    # -- what a scene says of itself

    def prepare(self):
        """Once, before the first command."""

    def begin(self):
        """Before each command."""

    def command(self):
        """The words of the command that is disturbed."""
        raise NotImplementedError

    def end(self):
        """Of what prepare() has started."""

    def verify(self, status):
        """After the command."""

    # -- means

    def path(self, name):
        return os.path.join(self.directory, name)

    def where(self):
        """The directory in which the commands run."""
        return self.directory

    def bin(self, name):
        return os.path.join(self.options.bin, name)

    def run(self, *words, status=0):
        done = subprocess.run(words, cwd=self.where(), capture_output=True, text=True,
                              env=self.environment, stdin=subprocess.DEVNULL, timeout=60,
                              check=False)
        if done.returncode != status:
            raise Fault(f"{' '.join(words)}: exit status {done.returncode}: "
                        f"{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, name):
        program = subprocess.Popen([self.bin("cr_run"), self.options.victim, self.path(name),
                                    str(self.children)],
                                   cwd=self.directory, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
        self.goes_on(name)
        return program

    def goes_on(self, name):
        for each in [name] + [f"{name}.{child + 1}" for child in range(self.children)]:
            before = count_in(self.path(each))
            wait_until(f"{each} to be counted on", lambda: count_in(self.path(each)) != before)

    def image_is_whole(self, name):
        self.run(self.bin("cr_inspect"), "--verify", name)

    def disturbed(self, nth, error):
        """Runs the command; returns (exit status, its messages, calls counted, which failed)."""
        self.begin()
        ours, theirs = os.pipe()
        log = open(self.path("messages"), "w+", encoding="utf-8", errors="replace")

        self.progress = progress = Progress()
        at_report, at_progress = 3, 4  # of fail_nth

        def with_report():
            sources = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs, progress.fd)]
            for source, target in zip(sources, (at_report, at_progress)):
                os.dup2(source, target)
                os.close(source)

        keep = set(processes.family(os.getpid()))
        below = ["--below", self.below] if self.below else []
        words = [self.options.fail_nth, str(nth), error, *below, *self.command()]
        process = subprocess.Popen(words, cwd=self.where(), stdin=subprocess.DEVNULL,
                                   env=self.environment,
                                   stdout=log, stderr=log,
                                   preexec_fn=with_report, close_fds=False,
                                   start_new_session=True)
        os.close(theirs)
        try:
            status = self.watch(process)
            if status is not None:
                self.await_nobody_but(keep, status)
        finally:
            self.end_all_but(keep, process)
            self.progress = None
            progress.close()
        report = b""
        while data := os.read(ours, 4096):
            report += data
        os.close(ours)
        log.seek(0)
        text = log.read()
        log.close()
        os.unlink(self.path("messages"))
        _, calls, _, failed = report.decode().split()
        return status, text, int(calls), int(failed)

    def wait_for_command(self, what, condition):
        """Of what fail_nth's command does; what comes after it has DEADLINE."""
        if self.progress:
            self.progress.wait_until(what, condition)
        else:
            wait_until(what, condition, patience=DEADLINE,
                       describe=lambda: processes.describe(os.getpid()))

    def watch(self, process):
        self.wait_for_command("the command to end", lambda: process.poll() is not None)
        return process.returncode

    def watch_until_decided(self, process, succeeded):
        """A restart: it has failed, or what it brought back goes on."""
        self.wait_for_command("the restart to succeed or to fail",
                              lambda: process.poll() is not None or succeeded())
        return process.returncode

    def await_nobody_but(self, keep, status):
        try:
            self.wait_for_command("nobody to be left over", lambda: self.nobody_but(keep))
        except Fault as late:
            with open(self.path("messages"), encoding="utf-8", errors="replace") as log:
                raise Fault(f"{late} (exit status {status}):\n{log.read()}") from None

    def await_end_of_saved(self):
        """A restart waits two seconds for ids whose former holders nobody has waited for, and we are
        the parent of orphans here."""
        wait_until("what was saved to be gone", lambda: self.nobody_but(set()))

    @staticmethod
    def nobody_but(keep):
        processes.reap(keep)
        return set(processes.family(os.getpid())) <= keep

    def end_all_but(self, keep, process):
        """The one that answers for the filter ends by itself when all others have."""
        while others := [pid for pid in processes.family(os.getpid())
                         if pid not in keep and not is_supervisor(pid)]:
            for pid in others:
                processes.kill(pid, os.getpid())
            processes.reap(keep | {process.pid})
        process.wait()
        processes.reap(keep)  # a restart that comes next would wait for their ids
