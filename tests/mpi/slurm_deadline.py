#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --before-deadline auto in a job of Slurm, whose controller knows when the job ends: for
slurm_test.py.

    slurm_deadline.py CR_RUN
"""
import subprocess
import sys
import tempfile

PATIENCE = 120


def run(options, said):
    with tempfile.TemporaryDirectory(prefix="cryo-sd-") as place:
        done = subprocess.run(["srun", "-n", "1", *options, "env", "-u", "SLURM_JOB_END_TIME",
                               sys.argv[1], "--interval", "1h", "--into", f"{place}/images",
                               "--before-deadline", "auto", "echo", "started"], text=True,
                              capture_output=True, check=False, timeout=PATIENCE)
    if (done.returncode, done.stdout, done.stderr) != (0, "started\n", said):
        sys.exit(f"{options}: {done}")


run(["--time=5"], "")
run([], "cr_run: --before-deadline=auto: the job has no time limit\n")
