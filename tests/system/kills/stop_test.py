#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP at random moments, for longer than anybody may be silent: of the program, its frozen copy,
cr_checkpoint and cr_restart. A stopped cr_checkpoint holds the program for its --stall at most.

After each, the last committed image must be whole, and the program must print what an undisturbed run
prints, to the last bit.

    stop_test.py --bin build/release/bin --program build/release/examples/heat [--rounds N] [--seed S]
"""
import os
import signal
import subprocess
import sys
import time

import kill_test
from kill_test import PATIENCE, Failed, processes

SOAK = bool(os.environ.get("CRYO_SOAK"))
STALL = 10 if SOAK else 1
STOPPED = 30 if SOAK else 2 * STALL
MARGIN = 5  # seconds that a busy machine adds; if it adds more, a program beside it shows that


class StopRun(kill_test.Run):
    options_of_checkpoint = ["-q", "--clobber", "--nosync", f"--stall={STALL}"]

    def victims(self):
        return [self.victim_checkpointer, self.victim_copy, self.victim_program,
                self.victim_restart]

    def stand_still(self, pid):
        """For STOPPED seconds. Whether it was still there to be stopped."""
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            return False
        begun = time.monotonic()
        if processes.state(pid) == "Z":
            return False
        if pid != self.pid:
            self.goes_on_within(STALL + MARGIN)
        # Time is what this is about, and nothing tells that nothing happens.
        time.sleep(max(0, begun + STOPPED - time.monotonic()))
        os.kill(pid, signal.SIGCONT)
        return True

    def goes_on_within(self, seconds):
        if self.started.poll() is not None:
            return  # there is no program
        before, end = self.lines(), time.monotonic() + seconds
        while self.lines() == before:
            if time.monotonic() > end:
                # As much as several lines take a program that nobody stops, on a machine as busy.
                subprocess.run([self.options.program, "1000", "100"], stdout=subprocess.DEVNULL,
                               check=True)
                if self.lines() == before:
                    raise Failed(f"the program stood still for {seconds} s and more")
            time.sleep(0.01)

    def ends(self, checkpointer):
        """Whether well. It may have failed: then it has said why."""
        _, errors = checkpointer.communicate(timeout=PATIENCE)
        if checkpointer.returncode != 0 and not errors:
            raise Failed(f"cr_checkpoint: exit status {checkpointer.returncode} without a word")
        return checkpointer.returncode == 0

    def victim_checkpointer(self):
        victim = self.start_checkpoint()
        self.pause(0.03)
        self.stand_still(victim.pid)
        self.ends(victim)
        self.check_goes_on()

    def victim_copy(self):
        checkpointer = self.start_checkpoint()
        pid = self.frozen_copy(checkpointer)
        if pid > 0:
            self.stand_still(pid)
        self.ends(checkpointer)
        self.check_goes_on()

    def victim_program(self):
        """Whoever stops a program wants it to stand still; the checkpoint may wait for it, or not."""
        checkpointer = self.start_checkpoint()
        self.pause(0.03)
        self.stand_still(self.pid)
        self.ends(checkpointer)
        self.check_goes_on()
        self.check_image()
        # An image made meanwhile may be one of a stopped program, which comes back stopped.
        if not self.ends(self.start_checkpoint()):
            raise Failed("there is no image of the program as it runs")

    def victim_restart(self):
        self.kill_program()
        victim = self.started = self.start_restart()
        self.pause(0.05)
        os.kill(victim.pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(victim.pid, signal.SIGCONT)
        self.await_restored()


if __name__ == "__main__":
    sys.exit(kill_test.main({False: StopRun}, 1000 if SOAK else 12))
