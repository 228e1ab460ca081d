#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file for Prometheus: cr_run --interval ... --metrics and cr_restart.

    test_metrics.py DIRECTORY-OF-COMMANDS
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position
import waiting  # noqa: E402  pylint: disable=wrong-import-position
from waiting import PATIENCE  # noqa: E402  pylint: disable=wrong-import-position

BIN = os.path.abspath(sys.argv.pop(1))
PROGRAM = """
import os, time
while not os.path.exists("end"):
    if os.path.exists("unsaveable"):
        refused = os.pidfd_open(os.getppid()) # of a process outside
        while os.path.exists("unsaveable"):
            time.sleep(0.005)
        os.close(refused)
    time.sleep(0.005)
"""


def wait_until(what, condition):
    return waiting.wait_until(what, condition, describe=lambda: processes.describe(os.getpid()))


class Metrics(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.mkdtemp(prefix="cryo-metrics.")
        self.addCleanup(shutil.rmtree, self.top)
        self.addCleanup(processes.kill_family, os.getpid()) # keepers, too, which became ours
        self.place = self.path("metrics")
        os.mkdir(self.place, 0o755)
        with open(self.path("program.py"), "x", encoding="ascii") as file:
            file.write(PROGRAM)
        self.program = None

    def path(self, name):
        return os.path.join(self.top, name)

    def touch(self, name):
        with open(self.path(name), "x", encoding="ascii"):
            pass

    def spawn(self, *words):
        with open(self.path("errors"), "ab") as errors:
            self.program = subprocess.Popen(words, cwd=self.top, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=errors)

    def start(self, *options):
        self.spawn(os.path.join(BIN, "cr_run"), "--interval", "200ms", "--into", "run", "--metrics", self.place,
                   *options, sys.executable, "-S", "program.py")

    def files(self):
        return sorted(name for name in os.listdir(self.place) if name.endswith(".prom"))

    def value(self, metric):
        """Of the one program; None: it is not there."""
        for name in self.files():
            try:
                with open(os.path.join(self.place, name), encoding="utf-8") as file:
                    text = file.read()
            except FileNotFoundError:
                continue
            if found := re.search(rf"(?m)^{metric}{{.*}} (.*)$", text):
                return float(found[1])
        return None

    def await_more(self, metric, than):
        return wait_until(f"{metric} > {than}", lambda: (self.value(metric) or 0) > than)

    def sizes(self):
        """Of the images that are there."""
        return [os.stat(self.path(f"run/{name}")).st_size for name in os.listdir(self.path("run"))
                if re.fullmatch(r"context\.\d+", name)]

    def test_life_of_a_program(self):
        self.start()
        self.await_more("cryo_checkpoints_total", 1)
        name = f"cryo-{self.program.pid}.prom"
        self.assertEqual([name], self.files())
        self.assertEqual(0o100644, os.lstat(os.path.join(self.place, name)).st_mode)
        with open(os.path.join(self.place, name), encoding="utf-8") as file:
            text = file.read()
        command = os.path.basename(os.path.realpath(sys.executable))[:15]
        self.assertRegex(text, rf'{{pid="{self.program.pid}",command="({command}|python3)"}}')
        if promtool := shutil.which("promtool"):
            judged = subprocess.run([promtool, "check", "metrics"], input=text, text=True, capture_output=True,
                                    check=False)
            self.assertEqual(0, judged.returncode, judged.stdout + judged.stderr)
        self.assertIn(self.value("cryo_image_bytes"), self.sizes())
        self.assertLess(abs(time.time() - self.value("cryo_last_checkpoint_timestamp_seconds")), 600)
        self.assertEqual(0, self.value("cryo_restarts_total"))
        self.assertLess(0, self.value("cryo_checkpoint_stop_seconds"))
        self.touch("unsaveable")
        self.await_more("cryo_checkpoint_failures_total", 1)
        made = self.value("cryo_checkpoints_total")
        os.unlink(self.path("unsaveable"))
        self.await_more("cryo_checkpoints_total", made)
        self.touch("end")
        self.assertEqual(0, self.program.wait(PATIENCE))
        wait_until("the end of the file", lambda: os.listdir(self.place) == [])

    def test_restart(self):
        self.start()
        self.await_more("cryo_checkpoints_total", 0)
        self.program.send_signal(signal.SIGKILL)
        self.program.wait()
        wait_until("the end of the file", lambda: os.listdir(self.place) == [])
        self.spawn(os.path.join(BIN, "cr_restart"), "-q", "--no-restore-pid", "--interval", "200ms",
                   "--metrics", self.place, "run/latest")
        self.await_more("cryo_checkpoints_total", 0)
        self.assertEqual(1, self.value("cryo_restarts_total"))
        self.touch("end")
        self.assertEqual(0, self.program.wait(PATIENCE))
        wait_until("the end of the file", lambda: os.listdir(self.place) == [])

    def refused(self, reason):
        self.start()
        self.assertNotEqual(0, self.program.wait(PATIENCE))
        with open(self.path("errors"), encoding="utf-8") as file:
            self.assertRegex(file.read(), reason)

    def test_directory_of_others(self):
        os.chmod(self.place, 0o777)
        self.refused(r"--metrics: \S+: other users may write to it \(mode 0777\); if .* chmod go-w; metrics are .*"
                     r" directory of your own")

    def test_no_directory(self):
        os.rmdir(self.place)
        self.refused("--metrics: .*No such file")

    def test_link(self):
        os.rename(self.place, self.path("real"))
        os.symlink("real", self.place)
        self.refused("--metrics: .*symbolic link")

    def test_directory_that_goes_away(self):
        """The program is saved all the same, and it is said once."""
        self.start()
        self.await_more("cryo_checkpoints_total", 0)
        shutil.rmtree(self.place)
        os.mkdir(self.place)
        def failures():
            with open(self.path("run/keeper.log"), encoding="utf-8") as file:
                return file.read().count(".prom")
        wait_until("failures", lambda: failures() >= 3)
        with open(self.path("errors"), encoding="utf-8") as file:
            self.assertEqual(1, file.read().count(".prom"))
        self.assertIsNone(self.program.poll())
        self.assertEqual([], os.listdir(self.place))


if __name__ == "__main__":
    processes.adopt_orphans()
    unittest.main()
