#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank that opal-restart has brought back is killed with its cr_restart, for which its launcher waits.
What the program itself has asked for when its parent dies (PR_SET_PDEATHSIG) stays its own: the next
image has that, and a plain cr_restart gives it again.

    test_bound.py --bin DIRECTORY --rank UNUSED [unittest arguments]
"""
import os
import signal
import sys
from pathlib import Path

import jobs

OWN = signal.SIGUSR2 # the program counts those that it gets
PROGRAM = f"""
import ctypes, os, signal, sys, time
got = 0
def count(*_):
    global got
    got += 1
signal.signal({int(OWN)}, count)
number = ctypes.c_int()
prctl = ctypes.CDLL(None).prctl
prctl(1, {int(OWN)})
beat = 0
while True:
    prctl(2, ctypes.byref(number))
    beat += 1
    with open(sys.argv[1] + "/beat.new", "w") as file:
        file.write(f"{{os.getpid()}} {{number.value}} {{got}} {{beat}}")
    os.rename(sys.argv[1] + "/beat.new", sys.argv[1] + "/beat")
    time.sleep(0.01)
"""


class Bound(jobs.Case):
    def beat(self):
        """Of the program: its pid, its parent-death signal, how many it has got, a growing number."""
        return [int(word) for word in Path(self.scratch, "beat").read_text().split()]

    def run_in_background(self, name, *arguments):
        """A command that brings the program back; returned when that runs."""
        Path(self.scratch, "beat").unlink(missing_ok=True)
        job = jobs.Job(self, [f"{jobs.OPTIONS.bin}/{name}", *arguments], self.settings())
        jobs.wait_for(Path(self.scratch, "beat").exists, "the program")
        self.addCleanup(self.end, self.beat()[0])
        return job

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def saved_by_opal(self):
        program = self.run_in_background("cr_run", sys.executable, "-c", PROGRAM, self.scratch)
        self.assertEqual(self.beat()[1], OWN)
        self.tool("opal-checkpoint", "-term", "-w", self.store, "-n", "one", program.pid)
        program.end(-signal.SIGTERM)

    def back_by_opal(self):
        return self.run_in_background("opal-restart", "-l", self.store, "-r", "one")

    def killed(self, command):
        os.kill(command.pid, signal.SIGKILL)
        command.end(-signal.SIGKILL)

    def test_killed_with_the_command(self):
        self.saved_by_opal()
        command = self.back_by_opal()
        program = self.beat()[0]
        self.killed(command)
        jobs.wait_for(lambda: not jobs.is_alive(program), "the program's end")

    def test_its_own_signal_is_kept(self):
        self.saved_by_opal()
        bound = self.back_by_opal()
        image = os.path.join(self.scratch, "image")
        self.tool("cr_checkpoint", "--term", "-f", image, self.beat()[0])
        bound.end(-signal.SIGTERM)
        plain = self.run_in_background("cr_restart", "--no-restore-pid", image)
        self.assertEqual(self.beat()[1], OWN)
        before = self.beat()
        self.killed(plain)
        jobs.wait_for(lambda: self.beat()[2] > before[2], "the program's own signal")
        seen = self.beat()[3]
        jobs.wait_for(lambda: self.beat()[3] > seen, "the program, which goes on")


if __name__ == "__main__":
    jobs.main()
