#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What stands between ctest and a test: output, status, and what is left behind.

    test_run_one_test.py scripts/lib/run_one_test
"""
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = sys.argv.pop(1)


def as_module():
    loader = importlib.machinery.SourceFileLoader("run_one_test", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_one_test", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


class RunOneTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="cryo-one-test.")
        self.addCleanup(self.place.cleanup)

    def run_one(self, command):
        return subprocess.run([sys.executable, SCRIPT, "name", "sh", "-c", command], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "CRYO_TEST_LOG": self.place.name})

    def kept(self):
        with open(os.path.join(self.place.name, "failed/name/output"), encoding="utf-8") as file:
            return file.read()

    def times(self):
        with open(os.path.join(self.place.name, "times"), encoding="utf-8") as file:
            return [line.split() for line in file]

    def await_ended_child(self, parent):
        """The test itself, which nobody has waited for yet."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with open(f"/proc/{parent}/task/{parent}/children", encoding="utf-8") as file:
                children = file.read().split()
            for child in children:
                with open(f"/proc/{child}/stat", encoding="utf-8") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        return
            time.sleep(0.01)
        self.fail("the test does not end")

    def test_one_that_passes(self):
        done = self.run_one("echo out; echo err >&2")
        self.assertEqual((0, "out\nerr\n"), (done.returncode, done.stdout))
        self.assertFalse(os.path.exists(os.path.join(self.place.name, "failed")))
        self.assertEqual(("name", "0"), (self.times()[0][0], self.times()[0][3]))

    def test_one_that_fails(self):
        done = self.run_one("echo why; exit 3")
        self.assertEqual((3, "why\n", "why\n"), (done.returncode, done.stdout, self.kept()))

    def test_one_that_is_killed(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            done = self.run_one(f"kill -{int(number)} $$")
            self.assertEqual((-number, ""), (done.returncode, done.stdout))

    def test_output_after_the_end(self):
        """Of a process that ends, too, it is waited for."""
        read, write = os.pipe()
        with subprocess.Popen(
                [sys.executable, SCRIPT, "name", "sh", "-c", f"(read x <&{read}; echo late) & :"],
                text=True, stdout=subprocess.PIPE, pass_fds=[read],
                env={**os.environ, "CRYO_TEST_LOG": self.place.name}) as process:
            os.close(read)
            self.await_ended_child(process.pid)
            os.write(write, b"\n")
            os.close(write)
            self.assertEqual("late\n", process.communicate()[0])
            self.assertEqual(0, process.returncode)

    def test_one_that_leaves_a_process_behind(self):
        module = as_module()
        module.PATIENCE = 0
        ours, theirs = os.pipe()
        with subprocess.Popen(["sleep", "1000"], stdout=theirs) as left, \
                subprocess.Popen(["true"], stdout=theirs) as test:
            os.close(theirs)
            os.waitid(os.P_PID, test.pid, os.WEXITED | os.WNOWAIT)
            holders = module.copy_output(ours, os.path.join(self.place.name, "output"), test.pid)
            left.kill()
        os.close(ours)
        self.assertEqual([f"{left.pid} sleep 1000 "], holders)
        with open(os.path.join(self.place.name, "output"), encoding="utf-8") as file:
            self.assertIn(f"holds the test's output: {left.pid} sleep 1000", file.read())


if __name__ == "__main__":
    unittest.main()
