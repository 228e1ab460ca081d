# SPDX-License-Identifier: Apache-2.0
"""A program that counts in every thread, and a cr_checkpoint that is held up in a phase of its work.

    class Topic(held.Case):
        def test_one(self):
            program = self.count(threads=3, processes=2)
            saver = self.hold(program, "described", "-f", "image")
            ... the saver waits until its message is read, which says that this phase is over ...
            self.assert_all_count(program)
            code, said = saver.let_go()
    case.main()
"""
import fcntl
import os
import signal
import struct
import subprocess
import time

import case

COUNTERS = ""


class Saver:
    """It cannot say that the phase is over: there is no room for the line."""

    def __init__(self, test, program, phase, words):
        self.phase = phase
        self.end, its_end = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(its_end, fcntl.F_SETPIPE_SZ, 4096)  # one line
        os.write(its_end, b".")
        self.begun = time.monotonic()
        self.process = test.spawn(case.command("cr_checkpoint"), "-v", *words, program.pid,
                                  stderr=its_end)
        os.close(its_end)
        self.said = ""
        self.waits_to_say = ""
        test.addCleanup(os.close, self.end)
        while True:
            case.wait_until("it cannot say more, or has ended", self.is_held_or_over)
            test.assertIsNone(self.process.poll(), self.said)
            if self.waits_to_say.startswith(phase):
                return
            self.said += os.read(self.end, 4096).decode().lstrip(".")

    def is_held_or_over(self):
        if self.process.poll() is not None:
            return True
        line = case.line_that_waits(self.process.pid)
        if line is None:
            return False
        self.waits_to_say = line.removeprefix("cr_checkpoint: ")
        return True

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def let_go(self):
        """Its exit status, and all that it has said."""
        self.process.send_signal(signal.SIGCONT)
        while more := os.read(self.end, 4096).decode():
            self.said += more.lstrip(".")
        return self.process.wait(case.PATIENCE), self.said


class Case(case.Case):
    """Tests of programs that stand still for some time, and go on."""

    def count(self, threads=3, processes=1):
        counts = self.path("counts")
        with open(counts, "wb"):
            pass
        program = self.spawn(case.command("cr_run"), COUNTERS, counts, threads, processes,
                             stdin=subprocess.DEVNULL)
        self.threads = threads * processes
        self.assert_all_count()
        return program

    def counts(self):
        with open(self.path("counts"), "rb") as file:
            bytes_of_all = file.read()
        if len(bytes_of_all) != 8 * self.threads:
            return [0] * self.threads
        return struct.unpack(f"{self.threads}Q", bytes_of_all)

    def assert_all_count(self):
        """Every thread goes on, all of them from now on."""
        before = self.counts()
        case.wait_until("every thread to count",
                        lambda: all(now > then for now, then in zip(self.counts(), before)))

    def assert_nobody_counts(self, until):
        """For as long as any of them would need by far. From UNTIL on they may count again: a machine
        that stands still lets that time pass, too."""
        before = self.counts()
        time.sleep(0.1)  # nothing can be waited for: that nothing happens is what is looked at
        after = self.counts()
        if time.monotonic() < until:
            self.assertEqual(before, after)

    def until_all_count(self, begun, limit):
        """Every thread stands still now, for LIMIT seconds from BEGUN on at least; how long since BEGUN
        until all go on, in seconds."""
        self.assert_nobody_counts(begun + limit)
        self.assert_all_count()
        return time.monotonic() - begun

    def hold(self, program, phase, *words):
        return Saver(self, program, phase, words)

    def assert_can_be_saved(self, program):
        """And goes on; nothing else has been left behind."""
        self.save("-f", "afterwards", program.pid)
        self.assert_all_count()
        os.unlink(self.path("afterwards"))
        self.assertEqual(["counts"], self.files())
