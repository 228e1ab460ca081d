#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments: of the program, its frozen copy, cr_checkpoint and cr_restart.

After each, the last committed image must be whole and restart, and a program that was not the
victim must not have noticed: what it prints is that of an undisturbed run, to the last bit.

    kill_test.py --bin build/release/bin --program build/release/examples/heat [--rounds N] [--seed S]

With --tree the program is one of four processes, of which the others hand on what it prints; a
victim may then be any one of them, too.
"""
import argparse
import functools
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
import waiting  # noqa: E402

# More steps than any test lasts; a line every hundred.
ARGUMENTS = ["100000000", "100"]
PATIENCE = 30


class Failed(Exception):
    pass


wait_until = functools.partial(waiting.wait_until, patience=PATIENCE, failure=Failed)


class Reference:
    """What an undisturbed run prints, read as far as it is needed. It pauses on a full pipe."""

    def __init__(self, program):
        self.process = subprocess.Popen([program, *ARGUMENTS], stdout=subprocess.PIPE,
                                        pipesize=4096)
        self.text = b""

    def agrees_with(self, printed):
        while len(self.text) < len(printed):
            self.text += self.process.stdout.readline()
        return self.text.startswith(printed)

    def end(self):
        self.process.kill()
        self.process.communicate()


class Run:
    """One program with its image, and what happens to them."""

    options_of_checkpoint = ["-q", "--clobber", "--nosync"]
    options_of_restart = ["-q", "--no-restore-pid"]

    def command(self):
        return [self.options.program, *ARGUMENTS]

    def processes(self):
        """All that the program consists of, its root first."""
        return [self.pid]

    def __init__(self, options, directory, reference):
        self.options = options
        self.image = os.path.join(directory, "context")
        self.output = os.path.join(directory, "output")
        self.reference = reference
        self.random = random.Random(options.seed)
        with open(self.output, "wb") as out:
            self.started = subprocess.Popen(
                [self.tool("cr_run"), *self.command()], stdout=out,
                stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = self.started.pid
        wait_until("the program's first line", lambda: self.lines() > 0)

    def tool(self, name):
        return os.path.join(self.options.bin, name)

    def lines(self):
        with open(self.output, "rb") as out:
            return out.read().count(b"\n")

    def start_checkpoint(self):
        return subprocess.Popen([self.tool("cr_checkpoint"), *self.options_of_checkpoint,
                                 "-f", self.image, str(self.pid)],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def checkpoint(self):
        done = self.start_checkpoint()
        _, errors = done.communicate(timeout=PATIENCE)
        if done.returncode != 0:
            raise Failed(f"cr_checkpoint: exit status {done.returncode}: {errors.decode()}")

    def check_goes_on(self):
        """The program was not the victim: it prints more, and what it should."""
        before = self.lines()
        wait_until("another line of the program", lambda: self.lines() > before)
        self.check_output()

    def check_output(self):
        with open(self.output, "rb") as out:
            printed = out.read()
        if not self.reference.agrees_with(printed[:printed.rfind(b"\n") + 1]):
            raise Failed("the program prints other numbers than undisturbed")

    def check_image(self):
        done = subprocess.run([self.tool("cr_inspect"), "--verify", self.image],
                              capture_output=True, text=True, check=False, timeout=PATIENCE)
        if done.returncode != 0:
            raise Failed(f"the image is damaged: {done.stdout}{done.stderr}")

    def pause(self, most):
        time.sleep(self.random.random() * most)  # the random moment, not a wait for anything

    def kill_program(self):
        if self.started.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        self.started.wait(PATIENCE)
        self.reap_orphans()

    def victims(self):
        return [self.victim_checkpointer, self.victim_copy, self.victim_program,
                self.victim_restart]

    def own_children(self):
        """Processes that came to us because their parent was killed."""
        ours = (self.started.pid, self.reference.process.pid)
        return [pid for pid in processes.children(os.getpid()) if pid not in ours]

    def reap_orphans(self):
        for pid in self.own_children():
            if processes.state(pid) == "Z":
                os.waitpid(pid, 0)

    def start_restart(self):
        return subprocess.Popen([self.tool("cr_restart"), *self.options_of_restart, self.image],
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def restart(self):
        self.started = self.start_restart()
        self.await_restored()

    def await_restored(self):
        """cr_restart may also have children that try something out for it, and end."""
        def at_work():
            if self.started.poll() is not None:
                raise Failed(f"cr_restart: exit status {self.started.returncode}: "
                             f"{self.started.stderr.read().decode()}")
            for self.pid in processes.children(self.started.pid):
                if not any(map(self.being_restored, self.processes())):
                    return True
            return False
        wait_until("the restored program to be at work", at_work)
        self.check_goes_on()

    @staticmethod
    def being_restored(pid):
        """A process that is still being put together does not listen on the control socket."""
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            return True
        return "960" not in names

    # The victims.

    def victim_checkpointer(self):
        victim = self.start_checkpoint()
        self.pause(0.03)
        victim.kill()
        victim.communicate()
        self.check_goes_on()

    def frozen_copy(self, checkpointer):
        """Its number; -1: the checkpoint was faster than we."""
        def copy():
            if checkpointer.poll() is not None:
                return -1
            return next((pid for pid in self.own_children() if pid != checkpointer.pid), None)
        return wait_until("the frozen copy", copy)

    def victim_copy(self):
        checkpointer = self.start_checkpoint()
        pid = self.frozen_copy(checkpointer)
        if pid > 0:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        checkpointer.communicate(timeout=PATIENCE)
        self.check_goes_on()

    def victim_program(self):
        checkpointer = self.start_checkpoint()
        self.pause(0.03)
        self.kill_program()
        checkpointer.communicate(timeout=PATIENCE)
        self.check_image()
        self.restart()

    def victim_restart(self):
        self.kill_program()
        victim = self.start_restart()
        self.pause(0.05)
        victim.kill()
        victim.communicate()
        for pid in self.own_children():
            os.kill(pid, signal.SIGKILL)  # the orphan of the killed cr_restart
            os.waitpid(pid, 0)
        self.reap_orphans()
        self.check_image()
        self.restart()

    def round(self):
        victim = self.random.choice(self.victims())
        try:
            victim()
            self.reap_orphans()
            self.check_image()
        except (Failed, subprocess.TimeoutExpired) as failure:
            raise Failed(f"{victim.__name__}: {failure}") from failure


class TreeRun(Run):
    """A shell, the program, and two that hand on what it prints."""

    def command(self):
        return ["sh", "-c", f"'{self.options.program}' {' '.join(ARGUMENTS)} | cat | cat"]

    def processes(self):
        return [self.pid, *processes.family(self.pid)]

    def kill_program(self):
        """All of them. Those whose parent is dead become our children."""
        alive = set(self.processes()) if self.started.poll() is None else set()
        for pid in alive:
            processes.kill(pid, os.getpid())
        self.started.wait(PATIENCE)
        self.end_orphans()

    def end_orphans(self):
        def all_gone():
            for pid in self.own_children():
                processes.kill(pid, os.getpid())
            self.reap_orphans()
            return not self.own_children()
        wait_until("the end of those that are left", all_gone)

    def victims(self):
        return [*super().victims(), self.victim_member]

    def killed_while_saved(self, kill):
        """An image in which some have ended already is good, but nothing to go on from."""
        shutil.copy(self.image, self.image + ".before")
        checkpointer = self.start_checkpoint()
        self.pause(0.03)
        kill()
        checkpointer.communicate(timeout=PATIENCE)
        self.kill_program()
        self.check_image()
        done = subprocess.run([self.tool("cr_inspect"), "--json", self.image],
                              capture_output=True, text=True, check=True, timeout=PATIENCE)
        found = json.loads(done.stdout)["snapshots"][0]["members"]
        if sum(one["state"] == "saved" for one in found) < 4:
            os.replace(self.image + ".before", self.image)
        self.restart()
        self.check_members()

    def victim_member(self):
        self.killed_while_saved(lambda: processes.kill(self.random.choice(self.processes()),
                                                       os.getpid()))

    def victim_program(self):
        self.killed_while_saved(self.kill_program)

    def victim_restart(self):
        self.kill_program()
        victim = self.start_restart()
        self.pause(0.1)
        victim.kill()
        victim.communicate()
        self.end_orphans()
        self.check_image()
        self.restart()
        self.check_members()

    def check_members(self):
        count = len(self.processes())
        if count != 4:
            raise Failed(f"{count} processes came back instead of 4")


def main(kinds, rounds):
    """`kinds`: what --tree chooses from."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--tree", action="store_true")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "little"))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    processes.adopt_orphans()
    directory = tempfile.mkdtemp(prefix="cryo-kills.")
    reference = Reference(options.program)
    run = kinds[options.tree](options, directory, reference)
    number = 0
    try:
        run.checkpoint()
        for number in range(options.rounds):
            run.round()
        run.check_goes_on()
    except (Failed, subprocess.TimeoutExpired) as failure:
        print(f"FAILED in round {number} with seed {options.seed}: {failure} (files: {directory})")
        return 1
    finally:
        run.kill_program()
        reference.end()
    shutil.rmtree(directory)
    print(f"{options.rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main({False: Run, True: TreeRun}, 1000 if os.environ.get("CRYO_SOAK") else 60))
