#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs and snapshots of one family of MPI libraries under the launcher of the other: one sentence
says what is wrong and what to do.

    other_family_test.py --bin BIN --standin FAMILY=LIBRARY ... --program FAMILY=PROGRAM ...
                         --launcher FAMILY=MPIRUN ... --job FAMILY=PROGRAM ...
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import run_mpi

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system" / "programs"))
from waiting import wait_until  # noqa: E402

PATIENCE = 120
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}
OPTIONS = None


def other_than(family):
    return "mpich" if family == "openmpi" else "openmpi"


class OtherFamily(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="cryo-of-", dir="/tmp")
        self.addCleanup(place.cleanup)
        self.top = place.name

    def settings(self, family, **more):
        settings = run_mpi.environment(self.top, "vader" if family == "openmpi" else "shm")
        settings.update(CRYO_RUNTIME_DIR=os.path.join(self.top, "run"), CRYO_LISTEN="127.0.0.1",
                        **more)
        return settings

    def run_it(self, *words, family, **more):
        settings = self.settings(family, **more)
        with run_mpi.eager(settings):
            return subprocess.run([*map(str, words)], env=settings, text=True, capture_output=True, check=False,
                                  timeout=PATIENCE, cwd=self.top, stdin=subprocess.DEVNULL)

    def test_program(self):
        """As a rank gets it from cr_run; no launcher is needed to see it."""
        for family, program in OPTIONS.program.items():
            other = other_than(family)
            done = self.run_it(program, family=family, LD_PRELOAD=OPTIONS.standin[other])
            self.assertEqual(1, done.returncode, done.stdout + done.stderr)
            self.assertRegex(done.stderr, rf"^cryo: this program is made for {NAMES[family]}, and "
                                          rf"cr_run has found the launcher of {NAMES[other]}: start "
                                          r"it by that of .*\n$")

    def test_snapshot(self):
        for family, program in OPTIONS.job.items():
            other = other_than(family)
            said = Path(self.top, f"output.{family}")
            settings = self.settings(family)
            with said.open("wb") as output, run_mpi.eager(settings):
                job = subprocess.Popen( # pylint: disable=consider-using-with
                    [f"{OPTIONS.bin}/cr_run", OPTIONS.launcher[family], "-n", "2", program, "1000000",
                     "begun"], env=settings, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=output, cwd=self.top, process_group=0) # no session: run_mpi.py says why
            self.addCleanup(job.kill)
            wait_until("the job's first line, or its end",
                       lambda job=job, said=said: "begun" in said.read_text(encoding="utf-8").split()
                       or job.poll() is not None, PATIENCE)
            self.assertIsNone(job.poll(), said.read_text(encoding="utf-8"))
            reference = self.save(job, family)
            job.wait(PATIENCE)
            done = self.run_it(f"{OPTIONS.bin}/ompi-restart", "--where", self.top, "--mpirun",
                               OPTIONS.launcher[other], reference, family=other)
            self.assertNotEqual(0, done.returncode, done.stdout + done.stderr)
            self.assertIn(f"this rank was saved under {NAMES[family]}, and the launcher of "
                          f"{NAMES[other]} brings it back: name one of {NAMES[family]} (ompi-restart "
                          "--mpirun ", done.stdout + done.stderr)

    def save(self, job, family):
        """Ends the job, too."""
        done = self.run_it(f"{OPTIONS.bin}/ompi-checkpoint", "--term", "--where", self.top, job.pid,
                           family=family)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return re.search(r"^Snapshot Ref\.: +\d+ (\S+)$", done.stdout, re.MULTILINE)[1]


def main():
    global OPTIONS  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin")
    for name in ("standin", "program", "launcher", "job"):
        parser.add_argument(f"--{name}", action="append")
    OPTIONS, rest = parser.parse_known_args()
    for name in ("standin", "program", "launcher", "job"):
        setattr(OPTIONS, name, dict(one.split("=", 1) for one in getattr(OPTIONS, name)))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
