#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs with callbacks that are stopped by SIGSTOP when they are saved.

    test_stopped.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""
import errno
import os
import signal
import unittest

import lab


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


class Stopped(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def stopped(self, *words):
        program = self.lab.start(*words)
        os.kill(program.pid, signal.SIGSTOP)
        self.await_state(program, "T")
        return program

    def await_state(self, program, state):
        self.lab.wait_for(lambda: state_of(program.pid) == state, f"state {state}", program)

    def assert_comes_back(self, program):
        self.lab.kill(program)
        again = self.lab.restart("-q", "--cont")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("s1 1", again)
        self.lab.end(again)

    def test_stays_stopped(self):
        for words in (["s1"], ["s1", "o2", "s3"]):
            with self.subTest(words), lab.Lab() as self.lab:
                program = self.stopped(*words)
                done = self.lab.checkpoint(program, "-q")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.await_state(program, "T")
                os.kill(program.pid, signal.SIGCONT)
                self.await_state(program, "S")
                self.assert_comes_back(program)

    def test_goes_on_afterwards(self):
        for words in (["s1"], ["s1", "o2", "s3"]):
            with self.subTest(words), lab.Lab() as self.lab:
                program = self.stopped(*words)
                done = self.lab.checkpoint(program, "-q", "--cont")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.await_state(program, "S")
                self.lab.await_line("s1 0", program)
                self.assert_comes_back(program)

    def test_thread_context_is_refused(self):
        program = self.stopped("t1", "s2")
        done = self.lab.checkpoint(program)
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("kill -CONT", done.stderr)
        self.await_state(program, "T")
        os.kill(program.pid, signal.SIGCONT)
        self.await_state(program, "S")
        done = self.lab.checkpoint(program)
        self.assertEqual(0, done.returncode, done.stderr)
        self.lab.end(program)


if __name__ == "__main__":
    lab.main()
