#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MPI program of somebody else's is saved at random moments, killed, and brought back, with
another transport each time; what it has computed in the end is what it computes undisturbed.

    foreign_test.py --bin DIRECTORY --ranks 4 hpcc | melt | peptide
"""
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from foreign_programs import SUBJECTS, make_directory
from job_test import Jobs, options_of_jobs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import run_mpi  # noqa: E402

TRANSPORTS = ("vader", "tcp", "both")

def compute(options, subject, directory, natively):
    """The result, and how often it was saved and brought back."""
    jobs = Jobs(options, directory)
    jobs.are_eager = False # they compute
    jobs.settings["OMP_NUM_THREADS"] = "1"
    mpirun = [options.mpirun, "-n", str(options.ranks), *subject.command]
    started = time.monotonic()
    saved = 0
    try:
        os.chdir(directory)
        if natively:
            jobs.start(mpirun)
            options.duration = None
        else:
            jobs.start([*jobs.command("cr_run"), *mpirun])
            for number in range(options.generations):
                time.sleep(random.uniform(0, options.duration / options.generations))
                reference = jobs.save("--term")
                if reference is None:
                    break
                saved += 1
                jobs.settings.update(
                    run_mpi.TRANSPORTS[TRANSPORTS[number % len(TRANSPORTS)]])
                jobs.start([*jobs.command("ompi-restart"), reference])
        if jobs.wait() != 0:
            jobs.fail("natively, the job fails" if natively else "the job fails")
        if natively:
            options.duration = time.monotonic() - started
            options.patience = max(options.patience, 10 * options.duration) # as in job_test.py
        return subject.result(directory), saved
    finally:
        jobs.kill()


def main():
    parser = options_of_jobs(__doc__, patience=200, generations=3)
    parser.add_argument("--steps", type=int, default=0, help="how much it computes")
    parser.add_argument("subject", choices=SUBJECTS)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    random.seed(options.seed)
    subject = SUBJECTS[options.subject]()
    files = subject.prepare(options)
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as top:
        expected, _ = compute(options, subject, make_directory(top, "n", files), True)
        found, saved = compute(options, subject, make_directory(top, "c", files), False)
        os.chdir("/")
    if found != expected:
        sys.exit(f"seed {options.seed}: saved {saved} times, and another result\n"
                 f"natively: {str(expected)[:2000]}\nfound: {str(found)[:2000]}")
    if saved == 0:
        sys.exit("the job came to its end before it was saved")
    print(f"saved and restarted {saved} times: the same result")


if __name__ == "__main__":
    main()
