#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The last image comes to the second place, too, when the program ends before it is copied.

    test_last_copy.py DIRECTORY-OF-COMMANDS
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
from processes import children, exists  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = os.path.abspath(sys.argv.pop(1))
PROGRAM = ("sleep", "1000")


def tool(name):
    return os.path.join(BIN, name)


class LastCopy(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-last-copy.")
        self.addCleanup(shutil.rmtree, self.top)
        self.program = None
        self.keeper = None
        self.addCleanup(self.end_all)

    def end_all(self):
        self.kill_program()
        if self.keeper:
            wait_until("the end of the keeper", lambda: self.end_copiers() or not exists(self.keeper))

    def end_copiers(self):
        for copier in children(self.keeper):
            with contextlib.suppress(ProcessLookupError):
                os.kill(copier, signal.SIGKILL)

    def kill_program(self):
        if self.program:
            self.program.kill()
            self.program.wait()

    def path(self, *names):
        return os.path.join(self.top, *names)

    def names(self, directory, start="context."):
        try:
            return sorted(n for n in os.listdir(self.path(directory)) if n.startswith(start))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def spawn(self, *options):
        with open(self.path("err"), "ab") as err:
            self.program = subprocess.Popen((tool("cr_run"), *options, *PROGRAM), cwd=self.top,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=err, start_new_session=True)

    def start(self, *options):
        self.spawn("--interval", "300ms", "--into", "one", "--second", "two", *options)
        self.keeper = wait_until("an image", self.keeper_in_state)

    def keeper_in_state(self):
        try:
            with open(self.path("one", "keeper.json"), encoding="utf-8") as file:
                return json.load(file).get("keeper")
        except FileNotFoundError:
            return None

    def log(self):
        with open(self.path("one", "keeper.log"), encoding="utf-8") as file:
            return file.read()

    def errors(self):
        with open(self.path("err"), encoding="utf-8") as file:
            return file.read()

    def size_of_an_image(self):
        self.spawn()
        wait_until("a program that can be saved", lambda: subprocess.run(
            (tool("cr_checkpoint"), "-q", "--kill", "-f", self.path("sample"), str(self.program.pid)),
            stderr=subprocess.DEVNULL, check=False).returncode == 0)
        self.program.wait()
        return os.stat(self.path("sample")).st_size

    def await_last(self):
        wait_until("the end of the keeper", lambda: not exists(self.keeper))
        last = self.names("one")[-1]
        self.assertEqual(self.names("two")[-1:], [last], self.log())
        self.assertIn(f"{last} is complete", self.log().splitlines()[-1])
        done = subprocess.run([tool("cr_inspect"), "--verify", self.path("two", "latest")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_made_while_another_was_copied(self):
        size = self.size_of_an_image()
        self.start("--delta=none", "--bandwidth", str(max(size // 3, 1)))
        begun = wait_until("a copy that has begun", lambda: self.names("two", ".context."))[0]
        _, copied, number, copier = begun.split(".")
        os.kill(int(copier), signal.SIGSTOP)
        wait_until("a newer image", lambda: self.names("one")[-1] > f"{copied}.{number}")
        self.kill_program()
        os.kill(int(copier), signal.SIGCONT)
        self.await_last()

    def test_one_that_could_not_be_copied_before(self):
        self.start()
        wait_until("a copy", lambda: self.names("two"))
        os.rename(self.path("two"), self.path("away"))
        with open(self.path("two"), "wb"):
            pass  # so that nobody makes it again
        wait_until("that it is told", lambda: "two" in self.errors())
        os.kill(self.keeper, signal.SIGSTOP)  # it has no time to try again before the end
        os.unlink(self.path("two"))
        os.rename(self.path("away"), self.path("two"))
        self.kill_program()
        os.kill(self.keeper, signal.SIGCONT)
        self.await_last()


if __name__ == "__main__":
    unittest.main(verbosity=2)
