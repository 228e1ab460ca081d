# SPDX-License-Identifier: Apache-2.0
"""A directory with programs in it, and a command whose Nth system call fails.

    class Mine(scene.Scene):
        def prepare(self): ...                 # once, before the first command
        def command(self): ...                 # its words
        def verify(self, status): ...          # raises scene.Fault for what must not be
"""
import functools
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402
import waiting  # noqa: E402

DEADLINE = 10  # what a user would wait for
PATIENCE = 30


class Fault(Exception):
    """What must not be."""


wait_until = functools.partial(waiting.wait_until, patience=PATIENCE, failure=Fault)


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

        def with_report():
            os.dup2(theirs, 3)

        keep = set(processes.family(os.getpid()))
        below = ["--below", self.below] if self.below else []
        words = [self.options.fail_nth, str(nth), error, *below, *self.command()]
        process = subprocess.Popen(words, cwd=self.where(), stdin=subprocess.DEVNULL,
                                   env=self.environment,
                                   stdout=log, stderr=log, pass_fds=(3,) if theirs == 3 else (),
                                   preexec_fn=with_report, close_fds=False,
                                   start_new_session=True)
        os.close(theirs)
        try:
            status = self.watch(process)
            if status is not None:
                self.await_nobody_but(keep, status)
        finally:
            self.end_all_but(keep, process)
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

    def watch(self, process):
        try:
            return process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            raise Fault(f"the command has not ended within {DEADLINE} s:\n"
                        f"{processes.describe(os.getpid())}") from None

    @staticmethod
    def watch_until_decided(process, succeeded):
        """A restart: it has failed, or what it brought back goes on."""
        try:
            wait_until("the restart to succeed or to fail",
                       lambda: process.poll() is not None or succeeded(), patience=DEADLINE)
        except Fault as late:
            raise Fault(f"{late}:\n{processes.describe(os.getpid())}") from None
        return process.returncode

    def await_nobody_but(self, keep, status):
        try:
            wait_until("nobody to be left over", lambda: self.nobody_but(keep), patience=DEADLINE)
        except Fault as late:
            with open(self.path("messages"), encoding="utf-8", errors="replace") as log:
                raise Fault(f"{late} (exit status {status}):\n{log.read()}"
                            f"{processes.describe(os.getpid())}") from None

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
