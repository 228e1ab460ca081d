#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of mpi4py, which saves the job by cryo.checkpoint_job(): killed, and brought back.

    python_test.py --bin DIRECTORY --modules DIRECTORY --mpirun mpirun --program heat_mpi4py.py
"""
import argparse
import re
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

from job_test import Jobs

OPTIONS = None
STEPS, EVERY = "60000", "10000"
PYTHON = "/usr/bin/python3" # Debian's mpi4py is for Debian's Python


class Python(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="cryo-py-", dir="/tmp")
        self.addCleanup(self.directory.cleanup)
        self.jobs = Jobs(SimpleNamespace(transport="vader", bin=OPTIONS.bin, patience=150),
                         self.directory.name)
        self.jobs.settings["PYTHONPATH"] = OPTIONS.modules
        self.addCleanup(self.jobs.kill)

    def start(self, cryo):
        words = [OPTIONS.mpirun, "-n", "3", PYTHON, "-B", OPTIONS.program, STEPS, EVERY]
        self.jobs.start((self.jobs.command("cr_run") if cryo else []) + words)

    def await_end(self):
        if self.jobs.wait() != 0:
            self.jobs.fail("the job fails")
        return re.findall(r"^\d+ steps: .*$", self.jobs.text(), re.M)

    def test_killed_and_restarted(self):
        self.start(cryo=False)
        natively = self.await_end()
        self.assertEqual(1, len(natively))
        self.assertIn("start it by cr_run mpirun", self.jobs.text())
        self.start(cryo=True)
        snapshot = Path(self.directory.name, "snapshots", f"ompi_global_snapshot_{self.jobs.job.pid}.ckpt")
        meta = snapshot / "global_snapshot_meta.data"
        end = time.monotonic() + 100
        while not meta.exists() or "# Finished Seq:" not in meta.read_text():
            if self.jobs.job.poll() is not None or time.monotonic() > end:
                self.jobs.fail("no snapshot comes")
            time.sleep(0.01)
        self.jobs.kill()
        self.jobs.start([*self.jobs.command("ompi-restart"), str(snapshot)])
        self.assertEqual(natively, self.await_end())
        self.assertRegex(self.jobs.text(), re.compile(r"^# step \d+: back$", re.M))


def main():
    global OPTIONS # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    for name in ("--bin", "--modules", "--mpirun", "--program"):
        parser.add_argument(name, required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[__file__, *rest])


if __name__ == "__main__":
    main()
