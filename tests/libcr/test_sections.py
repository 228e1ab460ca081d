#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Critical sections: a checkpoint waits for them, and is taken when the last one is left.

    test_sections.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import subprocess
import unittest

import lab


class Sections(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def held_up(self, word, lines):
        """A checkpoint waits for the sections; LINES of the log until it is done, then restarts."""
        program = self.lab.start(word, client="sections")
        saver = subprocess.Popen(self.lab.command("cr_checkpoint", "-q", "-f", self.lab.image,
                                                  str(program.pid)))
        self.lab.await_line("pending", program)
        if word != "exit":
            self.lab.await_line("would wait", program)
        self.assertIsNone(saver.poll())
        self.assertNotIn("callback", self.lab.log())
        self.lab.touch("leave")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.lab.await_line("left", program)
        if word != "exit":
            self.lab.await_line("entered", program)
        log = [line for line in self.lab.log() if line != "entered"]
        self.assertEqual(log, [*lines, "callback", "continued", "left"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("restarted", again)
        self.lab.await_line("left", again)
        log = [line for line in self.lab.log() if line != "entered"]
        self.assertEqual(log, [*lines, "callback", "restarted", "left"])
        self.assertEqual(self.lab.end(again), 9)

    def test_checkpoint_waits(self):
        self.held_up("", ["pending", "would wait", "leave"])

    def test_nested(self):
        self.held_up("nested", ["pending", "would wait", "leave", "leave", "leave"])

    def test_thread_context(self):
        self.held_up("thread", ["pending", "would wait", "leave"])

    def test_thread_that_ends_inside(self):
        self.held_up("exit", ["pending", "leave"])

    def test_no_room_for_a_signal(self):
        """The thread that leaves last calls itself by a signal, which has to wait."""
        self.held_up("full", ["pending", "would wait", "leave"])

    def blocked(self, word):
        """The last section is left with all signals blocked: the checkpoint is taken when they are
        not any more. (Under cr_run no program blocks the checkpoint signal: at once.)"""
        program = self.lab.start(word, client="sections")
        saver = subprocess.Popen(self.lab.command("cr_checkpoint", "-q", "-f", self.lab.image,
                                                  str(program.pid)))
        self.lab.await_line("would wait", program)
        self.lab.touch("leave")
        self.lab.await_line("left", program)
        if not self.lab.with_cr_run:
            self.assertEqual(self.lab.log(), ["pending", "would wait", "leave", "left"])
            self.assertIsNone(saver.poll())
        self.lab.touch("unblock")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.lab.await_line("entered", program)
        before = ["pending", "would wait", "leave", "left", "unblocks", "callback"]
        if self.lab.with_cr_run:
            before = ["pending", "would wait", "leave", "callback"]
        self.assertEqual(self.lab.log()[:len(before)], before)
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("entered", again)
        self.assertEqual(self.lab.log()[:len(before)], before)
        self.assertEqual(self.lab.end(again), 9)

    def test_left_with_all_signals_blocked(self):
        self.blocked("blocked")

    def test_left_with_all_signals_blocked_thread_context(self):
        self.blocked("blocked_thread")

    def last(self, word, afterwards):
        """Who is the last to leave does not unblock the signals again: the checkpoint is taken
        nevertheless, when it would wait or when it ends."""
        program = self.lab.start(word, client="sections")
        saver = subprocess.Popen(self.lab.command("cr_checkpoint", "-q", "-f", self.lab.image,
                                                  str(program.pid)))
        self.lab.await_line("blocks", program)
        self.lab.touch("leave")
        self.lab.await_line("left", program)
        self.lab.touch("unblock")
        self.assertEqual(saver.wait(lab.PATIENCE), 0)
        self.lab.await_line("continued", program)
        for line in afterwards:
            self.lab.await_line(line, program)
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        for line in ["restarted", *afterwards]:
            self.lab.await_line(line, again)
        self.assertEqual(self.lab.end(again), 9)

    def test_last_one_ends_with_all_signals_blocked(self):
        self.last("last_ends", [])

    def test_last_one_enters_again_with_all_signals_blocked(self):
        self.last("last_enters", ["entered"])

    def test_requester_that_goes_away(self):
        program = self.lab.start("", client="sections")
        saver = subprocess.Popen(self.lab.command("cr_checkpoint", "-q", "-f", self.lab.image,
                                                  str(program.pid)))
        self.lab.await_line("pending", program)
        saver.kill()
        saver.wait(lab.PATIENCE)
        self.lab.touch("leave")
        self.lab.await_line("left", program)
        self.lab.await_line("entered", program)
        self.assertNotIn("callback", self.lab.log())
        self.assertEqual(self.lab.checkpoint(program).returncode, 0)
        self.assertEqual(self.lab.end(program), 9)


if __name__ == "__main__":
    lab.main()
