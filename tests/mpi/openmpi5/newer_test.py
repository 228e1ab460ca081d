#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Open MPI has since 5.0, in jobs that are saved: messages of MPI_Isendrecv come through a
checkpoint and a restart, also of a job that has had sessions, or has a partitioned message that nobody
receives; a job with a persistent collective of a communicator that was freed is refused and goes on.

    newer_test.py --build BUILD --mpirun mpirun.openmpi --program newer
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "traffic"))
from job_test import Jobs, result  # noqa: E402

RANKS = 2


def begin(options, directory, what):
    jobs = Jobs(SimpleNamespace(transport="vader", bin=options.build / "bin", patience=120,
                                build=options.build), directory)
    jobs.start([*jobs.command("cr_run"), options.mpirun, "-n", str(RANKS), options.program,
                f"{directory}/stop", what])
    return jobs


def finish(jobs, directory):
    Path(directory, "stop").touch()
    if jobs.wait() != 0 or len(result(jobs.text())) != RANKS:
        jobs.fail("the job fails")


def saved(options, directory, what):
    jobs = begin(options, directory, what)
    try:
        for _ in range(2):
            reference = jobs.save("--term")
            if reference is None:
                jobs.fail("it was not saved")
            jobs.start([*jobs.command("ompi-restart"), reference])
        finish(jobs, directory)
    finally:
        jobs.kill()


def refused(options, directory, what):
    jobs = begin(options, directory, what)
    reason = "a persistent collective whose communicator was freed"
    try:
        end = time.monotonic() + jobs.options.patience
        while reason not in jobs.text(): # before that it is saved, or has not called MPI_Init yet
            try:
                done = subprocess.run([jobs.asking, str(jobs.job.pid)], env=jobs.settings, text=True,
                                      capture_output=True, check=False, stdin=subprocess.DEVNULL,
                                      timeout=jobs.options.patience)
            except subprocess.TimeoutExpired:
                jobs.fail("ompi-checkpoint does not end")
            if jobs.job.poll() is not None or time.monotonic() > end:
                jobs.fail(f"not refused as expected: {done.returncode}\n{done.stderr}")
        if done.returncode == 0:
            jobs.fail("it cannot be saved, and was saved")
        finish(jobs, directory)
    finally:
        jobs.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    for case, what in ((saved, "messages"), (saved, "sessions"), (saved, "partitions"),
                       (refused, "freed")):
        with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as directory:
            case(options, directory, what)


if __name__ == "__main__":
    main()
