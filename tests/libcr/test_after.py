#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a callback finds when its cr_checkpoint() returns.

    test_after.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import os
import unittest

import lab


class After(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def save(self, program, *options):
        done = self.lab.checkpoint(program, *options)
        self.assertEqual(0, done.returncode, done.stderr)

    def end(self, restarted):
        """Nothing of it is left for the next one."""
        self.assertEqual(9, self.lab.end(restarted))
        restarted.stderr.close()
        for name in (self.lab.path, self.lab.path + ".end", self.lab.image):
            os.unlink(name)

    def test_image_is_complete_when_a_callback_goes_on(self):
        """With --sync."""
        for client in ("s1", "t1"):
            program = self.lab.start(f"{client}:looks")
            self.save(program, "--sync")
            self.lab.await_line(f"{client} image", program)
            self.lab.kill(program)
            again = self.lab.restart("-q")
            self.lab.await_line(f"{client} 1", again)
            self.end(again)

    def test_floating_point_state_of_a_callback(self):
        """A callback has the same x87 stack and rounding after cr_checkpoint(), there and back."""
        for client in ("s1", "o1", "t1"):
            with self.subTest(client):
                program = self.lab.start(f"{client}:floats", "" if client != "o1" else "s2")
                self.save(program)
                self.lab.await_line(f"{client} 0", program)
                kept = [f"{client} x87 stack", f"{client} rounding"]
                of_it = [line for line in self.lab.log() if line.startswith(client)]
                self.assertEqual(of_it, [f"{client} enter", *kept, f"{client} 0"])
                self.lab.kill(program)
                again = self.lab.restart("-q")
                self.lab.await_line(f"{client} 1", again)
                of_it = [line for line in self.lab.log() if line.startswith(client)]
                self.assertEqual(of_it, [f"{client} enter", *kept, f"{client} 1"])
                self.end(again)


if __name__ == "__main__":
    lab.main()
