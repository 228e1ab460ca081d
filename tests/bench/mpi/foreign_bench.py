#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Cryo costs MPI programs of other people's: jobs natively, under cr_run, and saved again and
again meanwhile, in turns; medians are compared.

    foreign_bench [--full]
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join("@PROJECT_SOURCE_DIR@", "tests", "mpi", "traffic"))
from foreign_programs import SUBJECTS, make_directory  # noqa: E402 (needs the path above)
from job_test import Jobs  # noqa: E402

RANKS = 2
# Steps or sizes, and seconds between two checkpoints: in full, and to see that it runs.
SIZES = {"melt": {True: (30000, 10), False: (4000, 0.1)}, "hpcc": {True: (4000, 10), False: (1500, 0.1)}}


class Options:
    bin = "@PROJECT_BINARY_DIR@/bin"
    mpirun = "@CRYO_MPIRUN@"
    transport = "vader"
    ranks = RANKS
    patience = 600
    size = 0

    def __init__(self, steps):
        self.steps = steps


def run(subject, options, way, pause):
    """Seconds, milliseconds of all stops, and the result."""
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as top:
        directory = make_directory(top, "d", subject.prepare(options))
        jobs = Jobs(options, directory)
        # A measurement has a processor for each rank.
        jobs.settings.update(OMP_NUM_THREADS="1", OMPI_MCA_mpi_yield_when_idle="0")
        command = [options.mpirun, "-n", str(options.ranks), *subject.command]
        os.chdir(directory)
        try:
            begun = time.monotonic()
            jobs.start(command if way == "natively" else [*jobs.command("cr_run"), *command])
            while way == "saved" and is_running_after(jobs.job, pause):
                jobs.save("--keep", "1")
            if jobs.wait() != 0:
                jobs.fail("the job fails")
            seconds = time.monotonic() - begun
            return seconds, jobs.stops_ms, subject.result(directory)
        finally:
            os.chdir("/")
            jobs.kill()


def is_running_after(job, seconds):
    try:
        job.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        return True


def compare(name, full):
    steps, pause = SIZES[name][full]
    subject, options = SUBJECTS[name](), Options(steps)
    runs = {"natively": [], "cr_run": [], "saved": []}
    for turn in range(5 if full else 1):
        for way in sorted(runs, reverse=turn % 2 == 1):
            runs[way].append(run(subject, options, way, pause))
    expected = runs["natively"][0][2]
    if any(one[2] != expected for ways in runs.values() for one in ways):
        sys.exit(f"{name}: another result")
    seconds = {way: statistics.median(one[0] for one in ones) for way, ones in runs.items()}
    stops = [sum(one[1]) / 1000 for one in runs["saved"]]
    if not any(one[1] for one in runs["saved"]):
        sys.exit(f"{name}: was never saved")
    limit = seconds["natively"] * 1.01
    # A difference that natively there is between one run and the next says nothing.
    spread = max(one[0] for one in runs["natively"]) / min(one[0] for one in runs["natively"])
    for way, target in (("cr_run", limit), ("saved", limit + statistics.median(stops))):
        met = "met" if seconds[way] <= target else "MISSED"
        extra = "" if way == "cr_run" else f", {sum(map(len, (one[1] for one in runs['saved'])))} " \
            f"snapshots, stops {statistics.median(stops) * 1000:.0f} ms a run"
        line = f"    {name} {way}: {seconds['natively']:.2f} -> {seconds[way]:.2f} s, ratio"
        print(f"{line:62} {seconds[way] / seconds['natively']:6.3f}   target {target:.2f} s  {met} "
              f"(natively they differ by {100 * (spread - 1):.1f} %{extra})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it runs")
    full = parser.parse_args().full
    for name, program in (("melt", "lmp"), ("hpcc", "hpcc")):
        if shutil.which(program):
            compare(name, full)


if __name__ == "__main__":
    main()
