# SPDX-License-Identifier: Apache-2.0
"""One run of one test program under one tool: start, wait for READY, act, say CHECK, judge.

    outcome = Session(program, tool, scratch, patience=60).run("restart")
    print(outcome.kind, outcome.text)       # PASS, FAIL or LACKS, and why

The program and this talk through files of a directory: ready.N and verdict.N are the program's,
check.N is ours, N is the cycle. docs/test-programs.md has the protocol.
"""

import dataclasses
import os
import shutil
import subprocess
import tempfile
import time

import processes
import progress
import tools

LACKS_FEATURE = 77
GOES_ON_WITHIN = 4  # seconds, after a refusal; the machine may have much to do


@dataclasses.dataclass
class Outcome:
    """How a run ended."""
    kind: str
    text: str = ""


class Failed(Exception):
    """The run is over and has failed; the text says why."""


class Session:
    """A program's life from start to verdict."""

    def __init__(self, program, tool, scratch=None, patience=60, words=()):
        self.program = program
        self.tool = tool
        self.patience = patience
        self.words = words
        self.started = None
        self.directory = tempfile.mkdtemp(prefix=f"{program['name']}.", dir=scratch)
        self.output = os.path.join(self.directory, "output")

    # Files of the protocol

    def _path(self, name, cycle):
        return os.path.join(self.directory, f"{name}.{cycle}")

    def _verdict(self, cycle):
        try:
            with open(self._path("verdict", cycle), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _await(self, what, cycle):
        """Waits for ready or verdict of the cycle; a verdict that is no PASS ends the run."""
        deadline = time.monotonic() + self.patience
        while not os.path.exists(self._path(what, cycle)):
            verdict = self._verdict(cycle)
            if verdict is not None and verdict != "PASS":
                break
            status = self.started.poll()
            if status is not None and not os.path.exists(self._path("verdict", cycle)):
                raise Failed(f"ended with status {status} before {what}.{cycle}; it printed: "
                             f"{self._printed()}")
            if time.monotonic() > deadline:
                raise Failed(f"no {what}.{cycle} after {self.patience} s\n"
                             + processes.describe(self.started.pid))
            time.sleep(0.002)
        verdict = self._verdict(cycle)
        if verdict not in (None, "PASS"):
            raise Failed(verdict)
        if what == "ready" and os.path.exists(self._wake_fifo()):
            while processes.state(self.tool.pid_of(self.started)) != "S":
                if time.monotonic() > deadline:
                    raise Failed("is ready but does not go to sleep\n"
                                 + processes.describe(self.started.pid))
                time.sleep(0.002)

    def _say_check(self, cycle, *words):
        draft = self._path("check", f"{cycle}.draft")
        with open(draft, "w", encoding="ascii") as file:
            file.write(" ".join([*words, *self.words]))
        os.rename(draft, self._path("check", cycle))

    def _wake_fifo(self):
        return os.path.join(self.directory, "wake")

    def _wake(self):
        """Programs without a thread to spare sleep on a FIFO that we write to."""
        if not os.path.exists(self._wake_fifo()):
            return
        deadline = time.monotonic() + self.patience
        while True:
            try:
                fifo = os.open(self._wake_fifo(), os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError as error:
                # A restart needs a moment until it has opened it.
                if self.started.poll() is not None or time.monotonic() > deadline:
                    raise Failed("nobody reads the fifo that would wake the program: "
                                 f"{error}; it printed: {self._printed()}") from None
            time.sleep(0.002)
        os.write(fifo, b"!")
        os.close(fifo)

    def _printed(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()[-2000:].strip()

    # Steps

    def _where(self):
        return {"cwd": self.directory, "stdin": subprocess.DEVNULL,
                "stdout": open(self.output, "ab"),  # pylint: disable=consider-using-with
                "stderr": subprocess.STDOUT, "start_new_session": True}

    def _start(self, arguments=()):
        where = self._where()
        command = [*self.program["command"], "--dir", self.directory, *arguments]
        try:
            self.started = self.tool.start(command, **where)
        except OSError as error:
            raise Failed(f"cannot be started: {error}") from None
        finally:
            where["stdout"].close()

    def _cycle(self, number, *words):
        """From told to check to the verdict."""
        self._say_check(number, *words)
        self._wake()
        self._await("verdict", number)

    def _finish(self, number):
        self._await("ready", number)
        self._cycle(number, "last")
        try:
            status = self.started.wait(self.patience)
        except subprocess.TimeoutExpired:
            raise Failed(f"has passed but does not end\n{processes.describe(self.started.pid)}"
                         ) from None
        if status != 0:
            raise Failed(f"passed, but ended with status {status}: {self._printed()}")

    def _checkpoint(self, number):
        image = os.path.join(self.directory, f"image.{number}")
        self.tool.checkpoint(self.tool.pid_of(self.started), image,
                             self.program["checkpoint_options"])
        return image

    def _kill(self):
        for pid in [*processes.family(self.started.pid), self.started.pid]:
            processes.kill(pid, os.getpid())
        self.started.wait(self.patience)
        processes.kill_family(os.getpid())

    def _restart(self, image):
        where = self._where()
        self.started = self.tool.restart(image, **where)
        where["stdout"].close()

    # Modes

    def _plain(self, _generations):
        self._await("ready", 1)
        self._cycle(1, "more")
        self._finish(2)

    def _continue(self, _generations):
        self._await("ready", 1)
        self._checkpoint(1)
        self._cycle(1, "more")
        self._finish(2)

    def _generations(self, count):
        for number in range(1, count + 1):
            self._await("ready", number)
            image = self._checkpoint(number)
            self._kill()
            self._restart(image)
            self._cycle(number, "more")
        self._finish(count + 1)

    def _restart_once(self, _generations):
        self._generations(1)

    def _rollback(self, _generations):
        self._await("ready", 1)
        image = self._checkpoint(1)
        self._cycle(1, "more")
        self._await("ready", 2)
        self._kill()
        for name, cycle in (("check", 1), ("verdict", 1), ("ready", 2)):
            os.unlink(self._path(name, cycle))
        self._restart(image)
        self._cycle(1, "more")
        self._finish(2)

    def _refusal(self, word):
        """The tool must refuse, say why, leave nothing behind, and every thread must go on.

        False if it did not refuse."""
        self._await("ready", 1)
        before = set(os.listdir(self.directory))
        threads = progress.look(self.tool.pid_of(self.started))
        try:
            os.unlink(self._checkpoint(1))
        except tools.ToolFailed as refusal:
            if word not in str(refusal):
                raise Failed(f"expected a refusal that names {word}, found: {refusal}") from None
        else:
            return False
        try:
            progress.await_all(threads, GOES_ON_WITHIN)
        except progress.Stuck as stuck:
            raise Failed(f"after the refusal: {stuck}") from None
        if left := set(os.listdir(self.directory)) - before:
            raise Failed(f"the refused checkpoint left {', '.join(sorted(left))} behind")
        self._cycle(1, "more")
        self._finish(2)
        return True

    def _sabotage(self, name):
        self._start(("--sabotage", name))
        self._await("ready", 1)
        try:
            self._cycle(1, "last")
        except Failed as noticed:
            text = str(noticed)
            if text.startswith("FAIL: ") and name in text:
                return Outcome("PASS", text)
            raise Failed(f"sabotage '{name}': expected FAIL naming it, found: {text}") from None
        raise Failed(f"sabotage '{name}': expected FAIL, found PASS: the check is blind")

    def _guarded(self, steps):
        try:
            outcome = steps() or Outcome("PASS")
        except (Failed, tools.ToolFailed) as failure:
            text = str(failure)
            lacks = text.startswith("LACKS: ")
            if isinstance(failure, tools.ToolFailed) and self.started:
                ended = self.started.poll()
                text += ("; the program goes on" if ended is None else
                         f"; the program ended with status {ended}") + f": {self._printed()}"
            outcome = Outcome("LACKS" if lacks else "FAIL", text.removeprefix("FAIL: "))
        finally:
            processes.kill_family(os.getpid())
            if self.started:
                self.started.wait()
        if outcome.kind == "PASS":
            shutil.rmtree(self.directory)
        else:
            outcome.text += f"\n  (its files: {self.directory})"
        return outcome

    def run(self, mode, generations=10):
        """Runs the program once in MODE."""
        by_mode = {"plain": self._plain, "continue": self._continue, "rollback": self._rollback,
                   "restart": self._restart_once, "generations": self._generations}

        def steps():
            self._start()
            refused, may_be = self.program["refused"], self.program["may_be_refused"]
            if mode == "plain" or not (refused or may_be):
                by_mode[mode](generations)
            elif not self._refusal(refused or may_be):
                if refused:
                    raise Failed(f"expected a refusal that names {refused}, found a checkpoint")
                by_mode[mode](generations)
        return self._guarded(steps)

    def run_sabotage(self, name):
        """The program undoes what it tests, and must notice."""
        return self._guarded(lambda: self._sabotage(name))
