# SPDX-License-Identifier: Apache-2.0
"""A Python program that imports the module cryo, in a directory of its own.

    class Mine(case.Case):
        def test_it(self):
            self.start("say('ready'); await_file('go')")
            self.await_line("ready")
            self.save()
    case.main()                             # COMMANDS MODULES [unittest's arguments]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(TOP, "tests", "system", "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position
import waiting  # noqa: E402  pylint: disable=wrong-import-position
from waiting import PATIENCE  # noqa: E402  pylint: disable=wrong-import-position

MODULES = os.path.abspath(sys.argv.pop(2))
BIN = os.path.abspath(sys.argv.pop(1))
ABORTED = 2362 & 0xff # CR_ERSTRTABRT

# What the programs of the tests have in common: a word in the output, and a wait for the test's word.
COMMON = """
import os, signal, sys, threading, time
import cryo

def say(*words):
    print(*words, flush=True)

def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.005)

def stay(): # until the test kills us
    while True:
        time.sleep(0.005)

"""


def wait_until(what, condition):
    return waiting.wait_until(what, condition, describe=lambda: processes.describe(os.getpid()))


class Case(unittest.TestCase):
    """One program in a directory of its own."""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cryo-python.")
        self.addCleanup(shutil.rmtree, self.directory)
        self.addCleanup(processes.kill_family, os.getpid())
        self.modules = MODULES
        self.program = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def touch(self, name):
        with open(self.path(name), "w", encoding="ascii"):
            pass

    def variables(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return {**kept, "PYTHONPATH": self.modules}

    def popen(self, words, **how):
        with open(self.path("output"), "ab") as output:
            return subprocess.Popen(words, cwd=self.directory, env=self.variables(),
                                    **{"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output, **how})

    def start(self, code, run=True, **how):
        with open(self.path("program.py"), "w", encoding="utf-8") as file:
            file.write(COMMON + textwrap.dedent(code))
        command = [os.path.join(BIN, "cr_run")] if run else []
        self.program = self.popen([*command, sys.executable, "-B", "program.py"], **how)

    def cryo(self, name, *words):
        return subprocess.run([os.path.join(BIN, name), *words], cwd=self.directory, capture_output=True,
                              text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL)

    def output(self):
        with open(self.path("output"), encoding="utf-8") as file:
            return file.read()

    def await_line(self, pattern):
        def there():
            found = re.search(rf"(?m)^{pattern}$", self.output())
            if not found and self.program.poll() is not None and not re.search(rf"(?m)^{pattern}$", self.output()):
                self.fail(f"no '{pattern}', and the program ended with {self.program.returncode}:\n{self.output()}")
            return found
        return wait_until(f"'{pattern}' in the output", there)

    def save(self, *options, image="image"):
        done = self.cryo("cr_checkpoint", "--clobber", *options, "-f", image, str(self.program.pid))
        self.assertEqual(0, done.returncode, done.stderr)

    def kill(self):
        """The program, and what it has started."""
        processes.kill_family(os.getpid())
        self.program.wait()

    def back(self, image="image"):
        options = [] if processes.keep_ids() else ["--no-restore-pid"]
        self.program = self.popen([os.path.join(BIN, "cr_restart"), "-q", *options, image])

    def end(self, code=0):
        self.assertEqual(code, self.program.wait(PATIENCE), self.output())


def main():
    processes.adopt_orphans()
    unittest.main(module="__main__")
