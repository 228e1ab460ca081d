#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every Nth system call of a command fails, with each of five errors.

After each: the command has ended by itself within 10 s, or 30 s while it goes on making calls, and
has not crashed, the program that was to be saved makes progress, images that were there are whole,
a command that said it was done has done it, and nothing is left over, neither files nor processes.
A restart has brought back a program that goes on, or has said why not and left nobody behind.

    faults_test.py BIN FAIL_NTH VICTIM [--only NAME] [--count N] [--seed S] [--nth N --error E]
                   [--plain-user]
"""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile

import delta_scenes
import mpi_scenes
from scene import Fault, Scene, count_in, processes

ERRORS = ("ENOMEM", "EIO", "EMFILE", "EINTR", "ENOSPC")
# Calls of which each one fails, whatever is chosen by chance: threads and the disk.
ALWAYS = {"clone3": (435, "ENOMEM"), "fsync": (74, "EIO")}
CRASHES = {128 + number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL,
                                       signal.SIGFPE)}


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
        self.await_end_of_saved()
        self.known = set(os.listdir(self.directory))

    def command(self):
        ids = [] if processes.keep_ids() else ["--no-restore-pid"]
        return [self.bin("cr_restart"), "--no-restore-sid", *ids, "image"]

    def watch(self, process):
        before = count_in(self.path("count"))
        return self.watch_until_decided(process, lambda: count_in(self.path("count")) != before)

    def verify(self, status):
        if status == 0:
            raise Fault("it ended as if the program had")
        self.image_is_whole("image")
        new = set(os.listdir(self.directory)) - self.known
        if new:
            raise Fault(f"left over: {sorted(new)}")


class RestartTree(Restart):
    children = 2


class Inspect(Scene):
    def prepare(self):
        program = self.start("count")
        self.run(self.bin("cr_checkpoint"), "--kill", "-f", "image", str(program.pid))
        program.wait()

    def command(self):
        return [self.bin("cr_inspect"), "--verify", "image"]


SCENES = {"checkpoint": Checkpoint, "blocking": Blocking, "tree": Tree, "restart": Restart,
          "restart_tree": RestartTree, "inspect": Inspect,
          **delta_scenes.SCENES, **mpi_scenes.SCENES}


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
    parser.add_argument("--mpirun", help="of the fake ranks of tests/system/coord")
    parser.add_argument("--rank", help="a fake rank")
    parser.add_argument("--only", action="append", choices=sorted(SCENES))
    parser.add_argument("--error", action="append", choices=ERRORS)
    parser.add_argument("--nth", help="a number, or CALL:N")
    soak = bool(os.environ.get("CRYO_SOAK"))
    parser.add_argument("--count", type=int, default=10 ** 6 if soak else None,
                        help="calls of each scene and error")
    parser.add_argument("--plain-user", action="store_true", help="of root: as another user")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("CRYO_SLICE", 0)))
    options = parser.parse_args()
    options.bin, options.fail_nth, options.victim, options.mpirun, options.rank = (
        path and os.path.abspath(path) for path in (options.bin, options.fail_nth, options.victim,
                                                    options.mpirun, options.rank))
    if options.plain_user:
        processes.become_plain_user(options.bin)
    processes.adopt_orphans()
    print(f"seed {options.seed}", flush=True)
    chosen = random.Random(options.seed)
    problems, done = [], 0
    for name in options.only or [name for name in SCENES if options.rank or name not in mpi_scenes.SCENES]:
        for error in options.error or ERRORS:
            done += go(options, name, error, chosen, problems)
    print(f"{done} system calls failed, {len(problems)} times something was wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
