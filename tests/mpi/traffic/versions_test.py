#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that ask for their checkpoints themselves: MPI_Ckpt() and global_ckpt().

    versions_test.py --bin DIRECTORY --mpirun mpirun --program ./versions
"""
import argparse
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace

from job_test import Jobs, result

OPTIONS = None
EVERY = 30
VERSIONS = 4
CALLS = 1 + 2 * VERSIONS # at the beginning, and in the middle and at the end of each round


class VersionsTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="cryo-v-", dir="/tmp")
        self.addCleanup(self.directory.cleanup)
        self.jobs = Jobs(SimpleNamespace(transport="vader", bin=OPTIONS.bin, patience=150),
                         self.directory.name)
        self.addCleanup(self.jobs.kill)
        self.snapshots = Path(self.directory.name, "snapshots")

    def start(self, *how, cryo=True, must=True, program=None):
        words = [OPTIONS.mpirun, "-n", "3", program or OPTIONS.program, str(EVERY * VERSIONS), str(EVERY),
                 *how]
        if cryo and must:
            self.jobs.settings["VERSIONS_MUST"] = "1"
        self.jobs.start((self.jobs.command("cr_run") if cryo else []) + words)

    def await_end(self):
        if self.jobs.wait() != 0:
            self.jobs.fail("the job fails")
        return result(self.jobs.text())

    def finished(self, pid):
        """The numbers of the snapshots of that launcher that are there, whole."""
        meta = self.snapshots / f"ompi_global_snapshot_{pid}.ckpt" / "global_snapshot_meta.data"
        try:
            lines = meta.read_text().splitlines()
        except FileNotFoundError:
            return []
        return [int(line.split(":")[1]) for line in lines if line.startswith("# Finished Seq:")]

    def natively(self, *how):
        self.start(*how, cryo=False)
        return self.await_end()

    def await_snapshots(self, count):
        end = time.monotonic() + 100
        while len(self.finished(self.jobs.job.pid)) < count:
            if self.jobs.job.poll() is not None or time.monotonic() > end:
                self.jobs.fail(f"{count} snapshots do not come")
            time.sleep(0.01)

    def assert_finished(self, pid, numbers):
        """Images of the last version are written when the job has come to its end already."""
        end = time.monotonic() + 100
        while self.finished(pid) != numbers and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.finished(pid), numbers)

    def test_every_call_is_a_version(self):
        natively = self.natively()
        self.assertEqual(len(natively), 3)
        self.start()
        self.assertEqual(self.await_end(), natively)
        self.assert_finished(self.jobs.job.pid, list(range(CALLS)))
        self.assertIn("# restarts 0", self.jobs.text())

    def test_killed_and_restarted(self):
        natively = self.natively()
        self.start()
        first = self.jobs.job.pid
        self.await_snapshots(3)
        self.jobs.kill()
        # Nothing but the snapshot says where the next ones go.
        del self.jobs.settings["OMPI_MCA_snapc_base_global_snapshot_dir"]
        self.jobs.settings["HOME"] = self.directory.name
        self.jobs.start([*self.jobs.command("ompi-restart"),
                         str(self.snapshots / f"ompi_global_snapshot_{first}.ckpt")])
        second = self.jobs.job.pid
        self.assertEqual(self.await_end(), natively)
        self.assertIn("# restarts 1", self.jobs.text())
        # The restarted job went on to save itself, from where it was, beside the first snapshots.
        saved = len(self.finished(first))
        self.assertGreaterEqual(saved, 3)
        self.assert_finished(second, list(range(CALLS - saved)))

    def test_only_the_last_ones_are_kept(self):
        self.jobs.settings["OMPI_MCA_hook_cryo_keep"] = "2"
        self.start()
        self.await_end()
        self.assert_finished(self.jobs.job.pid, [CALLS - 2, CALLS - 1])

    def test_asking(self):
        natively = self.natively("ask")
        self.start("ask")
        self.await_snapshots(1)
        first = self.jobs.job.pid
        self.jobs.kill()
        self.jobs.start([*self.jobs.command("ompi-restart"),
                         str(self.snapshots / f"ompi_global_snapshot_{first}.ckpt")])
        self.assertEqual(self.await_end(), natively)
        self.assertIn("# restarts 1", self.jobs.text())

    def test_nowhere_to_write(self):
        natively = self.natively()
        self.jobs.settings["OMPI_MCA_hook_cryo_directory"] = "/dev/null/nowhere"
        self.start(must=False)
        self.assertEqual(self.await_end(), natively)
        self.assertEqual(self.jobs.text().count("MPI_Ckpt: the job was not saved"), CALLS)

    def test_fortran(self):
        if OPTIONS.fortran is None:
            self.skipTest("no Fortran compiler here")
        self.start(program=OPTIONS.fortran, cryo=False)
        natively = self.await_end()
        self.start(program=OPTIONS.fortran)
        first = self.jobs.job.pid
        self.assertEqual(self.await_end(), natively)
        self.assert_finished(first, list(range(VERSIONS)))
        self.jobs.start([*self.jobs.command("ompi-restart"), "--seq", "1",
                         str(self.snapshots / f"ompi_global_snapshot_{first}.ckpt")])
        self.assertEqual(self.await_end(), natively)
        self.assertIn("# restarts 1", self.jobs.text())

    def test_beside_a_command(self):
        """ompi-checkpoint, again and again, in the same job."""
        natively = self.natively()
        self.start()
        while self.jobs.job.poll() is None:
            subprocess.run([self.jobs.asking, str(self.jobs.job.pid)],
                           env=self.jobs.settings, capture_output=True, check=False, timeout=100,
                           stdin=subprocess.DEVNULL)
        self.assertEqual(self.await_end(), natively)


def main():
    global OPTIONS # pylint: disable=global-statement
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--program", required=True)
    parser.add_argument("--fortran", help="the same in Fortran")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[__file__, *rest])


if __name__ == "__main__":
    main()
