# SPDX-License-Identifier: Apache-2.0
"""A program that is started in a directory of its own, saved and brought back.

    class Mine(case.Case):
        def test_it(self):
            self.start("file = open('data', 'w')", "file.write('x')")
            self.save()
            self.back()
    case.main()                             # --bin DIRECTORY [unittest arguments]
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402
from waiting import PATIENCE, wait_until  # noqa: E402

BIN = ""

# Says what it was told, line by line, and what it found.
WORKER = r"""
import os, sys, time
{setup}
open("ready.made", "w").close()
os.rename("ready.made", "ready")
while not os.path.exists("go"):
    time.sleep(0.01)
{check}
open("done", "w").close()
"""


class Case(unittest.TestCase):
    """Each test is one program, saved and brought back in a directory of its own."""

    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-files.")
        self.directory = os.path.join(self.top, "place")
        os.mkdir(self.directory)
        self.image = os.path.join(self.top, "image")
        self.program = None
        self.log = open(os.path.join(self.top, "log"), "w+b")

    def tearDown(self):
        self.end()
        self.log.close()
        shutil.rmtree(self.top)

    @staticmethod
    def command(name):
        return os.path.join(BIN, name)

    def end(self):
        """Ends the program, and cr_restart with it."""
        if self.program and self.program.poll() is None:
            os.killpg(self.program.pid, signal.SIGKILL)
        if self.program:
            self.program.wait()
        self.program = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, setup="", check="", words=(), **where):
        where = {"stdin": subprocess.DEVNULL, "stdout": self.log, "stderr": self.log, **where}
        code = WORKER.format(setup=setup, check=check)
        self.program = subprocess.Popen(
            [self.command("cr_run"), *words, "/usr/bin/python3", "-S", "-c", code],
            cwd=self.directory, start_new_session=True, **where)
        wait_until("the program", lambda: os.path.exists(self.path("ready")))

    def checkpoint(self, *options):
        return subprocess.run([self.command("cr_checkpoint"), *options, "-f", self.image,
                               str(self.program.pid)], capture_output=True, text=True, check=False)

    def save(self, *options):
        done = self.checkpoint(*options)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end()
        return done.stderr

    def refused(self, *options):
        done = self.checkpoint(*options)
        self.assertNotEqual(0, done.returncode)
        self.assertFalse(os.path.exists(self.image))
        self.assertIsNone(self.program.poll(), "the program goes on")
        return done.stderr

    def restart(self, *options, directory=None, **where):
        """Brings the program back and lets it go; what cr_restart printed."""
        where = {"stdin": subprocess.DEVNULL, "stdout": self.log, **where}
        self.program = subprocess.Popen(
            [self.command("cr_restart"), "--no-restore-pid", "--no-restore-sid", *options,
             self.image],
            stderr=subprocess.PIPE, text=True, start_new_session=True, **where)
        open(os.path.join(directory or self.directory, "go"), "w").close()
        _, printed = self.program.communicate(timeout=PATIENCE)
        return self.program.returncode, printed

    def back(self, *options, **where):
        status, printed = self.restart(*options, **where)
        self.assertEqual(0, status, printed + self.read(self.log.name))
        return printed

    @staticmethod
    def read(path):
        with open(path, encoding="utf-8") as file:
            return file.read()


def main():
    global BIN  # pylint: disable=global-statement
    at = sys.argv.index("--bin")
    BIN = sys.argv[at + 1]
    del sys.argv[at:at + 2]
    processes.have_own_network()  # for the ports of programs that are killed and come back
    unittest.main()
