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
PLAIN = 1000 # a user

# What the programs of the tests have in common: a word in the output; a wait for the test's word, or for
# a request that waits; and a thread in a critical section, which says when one waits for it.
COMMON = """
import ctypes, os, signal, sys, threading, time
import cryo

def say(*words):
    print(*words, flush=True)

def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.005)

def stay(): # until the test kills us
    while True:
        time.sleep(0.005)

def await_request():
    status = ctypes.CDLL("libcr.so.0").cr_status
    while status() != 1:
        time.sleep(0.005)

def enter_elsewhere(until="leave", **how): # gives the thread
    entered = threading.Event()
    def inside():
        with cryo.critical():
            entered.set()
            await_request()
            say("asked")
            await_file(until)
    other = threading.Thread(target=inside, **how)
    other.start()
    entered.wait()
    return other

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
        self.user = {}

    def become_plain_user(self):
        """Of root: the programs and commands from now on are nobody's in particular."""
        if os.geteuid() != 0:
            return
        self.user = {"user": PLAIN, "group": PLAIN, "extra_groups": []}
        self.touch("output")
        for path in self.directory, self.path("output"):
            os.chown(path, PLAIN, PLAIN)
        if subprocess.run(["test", "-x", os.path.join(BIN, "cr_restart")], check=False, **self.user).returncode:
            self.skipTest(f"user {PLAIN} may not see {BIN}")

    def path(self, name):
        return os.path.join(self.directory, name)

    def touch(self, name):
        with open(self.path(name), "w", encoding="ascii"):
            pass

    def variables(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return {**kept, "PYTHONPATH": self.modules, **({"HOME": "/"} if self.user else {})}

    def popen(self, words, **how):
        with open(self.path("output"), "ab") as output:
            return subprocess.Popen(words, cwd=self.directory, env=self.variables(),
                                    **{"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output,
                                       **self.user, **how})

    def start(self, code, run=True, **how):
        with open(self.path("program.py"), "w", encoding="utf-8") as file:
            file.write(COMMON + textwrap.dedent(code))
        command = [os.path.join(BIN, "cr_run")] if run else []
        self.program = self.popen([*command, sys.executable, "-B", "program.py"], **how)

    def cryo(self, name, *words):
        return subprocess.run([os.path.join(BIN, name), *words], cwd=self.directory, capture_output=True,
                              text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL, **self.user)

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

    def begin_to_save(self, image="theirs"):
        """A cr_checkpoint that is under way."""
        return self.popen([os.path.join(BIN, "cr_checkpoint"), "-q", "-f", image, str(self.program.pid)])

    def kill(self):
        """The program, and what it has started."""
        processes.kill_family(os.getpid())
        self.program.wait()

    def back(self, image="image"):
        options = [] if processes.keep_ids() and not self.user else ["--no-restore-pid"]
        self.program = self.popen([os.path.join(BIN, "cr_restart"), "-q", *options, image])

    def end(self, code=0):
        self.assertEqual(code, self.program.wait(PATIENCE), self.output())


def main():
    processes.adopt_orphans()
    unittest.main(module="__main__")
