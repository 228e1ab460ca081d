# SPDX-License-Identifier: Apache-2.0
"""Callbacks that ask, by the command, for a checkpoint of their own process, and wait for it."""

import errno
import os
import unittest

import lab
from lab import Lab

BUSY = errno.EBUSY


class Overlap(unittest.TestCase):
    """The command would wait for the checkpoint, the checkpoint for the callback, and that for the
    command. Each way the command is refused, and the checkpoint is taken."""

    def check(self, context, inner, *options):
        """`inner`: the name of the image that the callback asks for."""
        with Lab() as here:
            command = here.command("cr_checkpoint", "-f", os.path.join(here.directory, inner))
            program = here.start(context, " ".join(command), client="overlap")
            saved = here.checkpoint(program, *options)
            self.assertEqual(saved.returncode, 0, saved.stderr)
            self.assertEqual(here.log(), [f"before {BUSY}", f"after {BUSY}"])
            with open(here.path + ".why", encoding="utf-8") as why:
                self.assertEqual(why.read().count("so it cannot be waited for"), 2)
            self.assertEqual(sorted(name for name in os.listdir(here.directory)
                                    if name.endswith("image")), ["image"])
            self.assertEqual(here.end(program), 0)

    def test_in_a_thread_context(self):
        self.check("t", "other.image")

    def test_in_a_signal_context(self):
        self.check("s", "other.image")

    def test_for_the_very_same_image(self):
        self.check("s", "image")

    def test_in_one_of_a_tree(self):
        self.check("t", "other.image", "--tree")

    def test_while_its_memory_is_read(self):
        self.check("t", "other.image", "--snapshot=stop")

    def test_in_the_restored_copy(self):
        """Nobody takes a checkpoint then, but the callbacks have not ended."""
        for context in "ts":
            with self.subTest(context), Lab() as here:
                command = here.command("cr_checkpoint", "-f",
                                       os.path.join(here.directory, "other.image"))
                program = here.start(context, " ".join(command), client="overlap")
                saved = here.checkpoint(program)
                self.assertEqual(saved.returncode, 0, saved.stderr)
                here.kill(program)
                restarted = here.restart()
                self.addCleanup(restarted.stderr.close)
                here.await_line("restored", restarted)
                self.assertEqual(here.log()[-1], f"restored {BUSY}")
                with open(here.path + ".why", encoding="utf-8") as why:
                    self.assertIn("which would wait for itself", why.read())
                self.assertEqual(here.end(restarted), 0)


if __name__ == "__main__":
    lab.main()
