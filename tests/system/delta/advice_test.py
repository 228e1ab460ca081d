#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What madvise(2) has said about memory is in a delta image as it was in the stop, also where that
was read before.

    advice_test.py DIRECTORY-OF-COMMANDS PROGRAM
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from talker import Talker

BIN = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
IMAGES = 10


def tool(name):
    return os.path.join(BIN, name)


class Program(Talker):
    def looks(self):
        return int(self.tell("?"))

    def await_looks(self, more):
        """Until it has looked so much more often."""
        wanted = self.looks() + more
        while self.looks() < wanted:
            time.sleep(0.001)


class Advice(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-advice.")
        self.addCleanup(shutil.rmtree, self.scratch)

    def start(self, *words):
        program = Program(*words)
        self.addCleanup(program.kill)
        return program

    def checkpoint(self, program, name, *options):
        done = subprocess.run([tool("cr_checkpoint"), "-v", "--nosync", "-f", name, *options,
                               str(program.process.pid)], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def try_by(self, how):
        images = [os.path.join(self.scratch, f"{how}.{i}") for i in range(IMAGES)]
        program = self.start(tool("cr_run"), PROGRAM, how)
        chance = random.Random(how)
        staged = watched = 0
        for i, image in enumerate(images):
            base = ["--base", images[i - 1]] if i > 0 else []
            program.await_looks(1 + chance.randrange(3))
            said = self.checkpoint(program, image, "--delta=incremental", *base)
            watched += "found by userfaultfd" in said
            staged += "copied in the stop" in said
        program.await_looks(1)
        program.kill()
        self.assertTrue(staged > 0 or watched < IMAGES, said)
        for image in images:
            back = self.start(tool("cr_restart"), "-q", "--no-restore-pid", image)
            back.await_looks(4)
            back.kill()

    def test_by_function(self):
        self.try_by("libc")

    def test_by_number(self):
        self.try_by("number")


if __name__ == "__main__":
    unittest.main()
