#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every Nth system call of a command fails, with each of five errors.

After each: the command has ended by itself within 10 s and has not crashed, the program that was to
be saved makes progress, images that were there are whole, a command that said it was done has done
it, and nothing is left over, neither files nor processes. A restart has brought back a program that
goes on, or has said why not and left nobody behind.

    faults_test.py BIN FAIL_NTH VICTIM [--only NAME] [--count N] [--seed S] [--nth N --error E]
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402

ERRORS = ("ENOMEM", "EIO", "EMFILE", "EINTR", "ENOSPC")
# Calls of which each one fails, whatever is chosen by chance: threads and the disk.
ALWAYS = {"clone3": (435, "ENOMEM"), "fsync": (74, "EIO")}
DEADLINE = 10  # what a user would wait for
PATIENCE = 30
CRASHES = {128 + number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL,
                                       signal.SIGFPE)}


class Fault(Exception):
    """What must not be."""


def wait_until(what, condition, patience=PATIENCE):
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise Fault(f"waited {patience} s for {what}")
        time.sleep(0.002)
    return value


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

    def __init__(self, options, directory):
        self.options = options
        self.directory = directory
        self.number = 0
        self.prepare()

    # -- what a scene says of itself

    def prepare(self):
        """Once, before the first command."""

    def command(self):
        """The words of the command that is disturbed."""
        raise NotImplementedError

    def verify(self, status):
        """After the command."""

    # -- means

    def path(self, name):
        return os.path.join(self.directory, name)

    def bin(self, name):
        return os.path.join(self.options.bin, name)

    def run(self, *words, status=0):
        done = subprocess.run(words, cwd=self.directory, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
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
        ours, theirs = os.pipe()
        log = open(self.path("messages"), "w+", encoding="utf-8", errors="replace")

        def with_report():
            os.dup2(theirs, 3)

        keep = set(processes.family(os.getpid()))
        words = [self.options.fail_nth, str(nth), error, *self.command()]
        process = subprocess.Popen(words, cwd=self.directory, stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, pass_fds=(3,) if theirs == 3 else (),
                                   preexec_fn=with_report, close_fds=False,
                                   start_new_session=True)
        os.close(theirs)
        try:
            status = self.watch(process)
            if status is not None:
                wait_until("nobody to be left over", lambda: self.nobody_but(keep), DEADLINE)
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


class Checkpoint(Scene):
    """The program goes on, the image before stays whole, nothing else is left."""

    options_of = ()

    def prepare(self):
        self.program = self.start("count")
        self.run(self.bin("cr_checkpoint"), *self.options_of, "-f", "before", str(self.program.pid))
        self.known = set(os.listdir(self.directory))

    def command(self):
        return [self.bin("cr_checkpoint"), *self.options_of, "-f", "image", str(self.program.pid)]

    def verify(self, status):
        if self.program.poll() is not None:
            raise Fault("the program has ended")
        self.goes_on("count")
        self.image_is_whole("before")
        new = set(os.listdir(self.directory)) - self.known
        if "image" in new:
            self.image_is_whole("image")
            os.unlink(self.path("image"))
        elif status == 0:
            raise Fault("it said that it was done, and there is no image")
        if new - {"image"}:
            raise Fault(f"left over: {sorted(new - {'image'})}")

    def end(self):
        os.killpg(self.program.pid, signal.SIGKILL)
        self.program.wait()


class Blocking(Checkpoint):
    options_of = ("--snapshot=stop",)


class Tree(Checkpoint):
    children = 2
    options_of = ("--tree",)


class Restart(Scene):
    """The program comes back and goes on; or it is said why not, and nobody is left."""

    def prepare(self):
        program = self.start("count")
        self.run(self.bin("cr_checkpoint"), "--kill", "-f", "image", str(program.pid))
        program.wait()
        self.known = set(os.listdir(self.directory))

    def command(self):
        return [self.bin("cr_restart"), "image"]

    def watch(self, process):
        before = count_in(self.path("count"))
        wait_until("the restart to succeed or to fail",
                   lambda: process.poll() is not None or count_in(self.path("count")) != before,
                   DEADLINE)
        return process.returncode

    def verify(self, status):
        if status == 0:
            raise Fault("it ended as if the program had")
        self.image_is_whole("image")
        new = set(os.listdir(self.directory)) - self.known
        if new:
            raise Fault(f"left over: {sorted(new)}")

    def end(self):
        pass


class RestartTree(Restart):
    children = 2
    sample = 4 # it makes 26,000 calls


class Inspect(Scene):
    def prepare(self):
        program = self.start("count")
        self.run(self.bin("cr_checkpoint"), "--kill", "-f", "image", str(program.pid))
        program.wait()

    def command(self):
        return [self.bin("cr_inspect"), "--verify", "image"]

    def end(self):
        pass


class DeltaAdd(Scene):
    """Versions that were there stay, and a version that was added is there."""

    def prepare(self):
        self.contents = random.Random(1).randbytes(300000)
        self.kept = 0
        for _ in range(3):
            self.write()
            self.run(self.bin("cr_delta"), "add", "--service", "service", "file", "-o",
                     f"delta.{self.kept}")
            self.kept += 1

    def write(self):
        changed = bytearray(self.contents)
        changed[self.kept * 4096 % 290000] ^= 1
        self.contents = bytes(changed)
        with open(self.path("file"), "wb") as file:
            file.write(self.contents)

    def command(self):
        return [self.bin("cr_delta"), "add", "--service", "service", "file", "-o",
                f"delta.{self.kept}"]

    def verify(self, status):
        self.run(self.bin("cr_delta"), "verify", "--service", "service")
        listing = json.loads(self.run(self.bin("cr_delta"), "list", "--service", "service", "--json"))
        versions = sum(version["state"] == "kept" for version in listing["versions"])
        added = os.path.exists(self.path(f"delta.{self.kept}"))
        if status == 0 and not added:
            raise Fault("it said that it was done, and there is no delta")
        self.kept += added
        if versions != self.kept:
            raise Fault(f"{versions} versions are listed, and there are {self.kept} deltas")
        last = listing["versions"][-1]["number"]
        self.run(self.bin("cr_delta"), "restore", "--service", "service", str(last), "-o", "restored")
        os.unlink(self.path("restored"))

    def end(self):
        pass


SCENES = {"checkpoint": Checkpoint, "blocking": Blocking, "tree": Tree, "restart": Restart,
          "restart_tree": RestartTree, "inspect": Inspect, "delta_add": DeltaAdd}


def explain(name, nth, error, failed, problem, text):
    return (f"{name}: call {nth} ({failed}) fails with {error}: {problem}\n  {text.strip()[:2000]}\n"
            f"  again: --only {name} --nth {nth} --error {error}")


def disturb(scene, name, nth, error):
    """None, or what was wrong."""
    status, text, failed = None, "", "?"
    try:
        status, text, _, failed = scene.disturbed(nth, error)
        if status in CRASHES:
            raise Fault(f"it was ended by signal {status - 128}")
        if status not in (0, None) and not text.strip():
            raise Fault(f"exit status {status}, and no word why")
        scene.verify(status)
    except Fault as problem:
        return explain(name, nth, error, failed, problem, text)
    return None


def always(scene, error):
    """Each call of some kinds: "CALL:N"."""
    numbers = []
    for call, with_error in ALWAYS.values():
        if with_error == error:
            calls = scene.disturbed(f"{call}:0", error)[2]
            scene.verify(None)
            numbers += [f"{call}:{n + 1}" for n in range(min(calls, 20))]
    return numbers


def go(options, name, error, chosen, problems):
    directory = tempfile.mkdtemp(prefix="cryo-faults.")
    try:
        scene = SCENES[name](options, directory)
        calls = scene.disturbed(0, error)[2]
        scene.verify(None)
        numbers = [options.nth] if options.nth else sorted(
            chosen.sample(range(1, calls + 1), min(calls, options.count or scene.sample)))
        numbers += [] if options.nth else always(scene, error)
        for nth in numbers:
            problem = disturb(scene, name, nth, error)
            if problem:
                print(problem, flush=True)
                problems.append(problem)
                scene.end()
                shutil.rmtree(directory, ignore_errors=True)
                directory = tempfile.mkdtemp(prefix="cryo-faults.")
                scene = SCENES[name](options, directory)
        scene.end()
        print(f"{name}, {error}: {len(numbers)} of {calls} calls", flush=True)
        return len(numbers)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("fail_nth")
    parser.add_argument("victim")
    parser.add_argument("--only", action="append", choices=sorted(SCENES))
    parser.add_argument("--error", action="append", choices=ERRORS)
    parser.add_argument("--nth", help="a number, or CALL:N")
    soak = bool(os.environ.get("CRYO_SOAK"))
    parser.add_argument("--count", type=int, default=10 ** 6 if soak else None,
                        help="calls of each scene and error")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CRYO_SLICE", 0)))
    options = parser.parse_args()
    options.bin, options.fail_nth, options.victim = (
        os.path.abspath(path) for path in (options.bin, options.fail_nth, options.victim))
    processes.adopt_orphans()
    print(f"seed {options.seed}", flush=True)
    chosen = random.Random(options.seed)
    problems, done = [], 0
    for name in options.only or SCENES:
        for error in options.error or ERRORS:
            done += go(options, name, error, chosen, problems)
    print(f"{done} system calls failed, {len(problems)} times something was wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
