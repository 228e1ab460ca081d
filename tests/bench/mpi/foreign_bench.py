#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Cryo costs MPI programs of other people's: jobs natively, under cr_run, and saved again and
again meanwhile, in turns. Pairs of runs are compared.

    foreign_bench [--full]
"""
import argparse
import math
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
SIZES = {"melt": {True: (30000, 4), False: (4000, 0.1)}, "hpcc": {True: (2500, 2), False: (1500, 0.1)}}
PAIRS = 20


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
    """Seconds, milliseconds of all stops, the result, and seconds that are to be told apart."""
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
            apart = getattr(subject, "seconds_of_tests", lambda _: 0)(directory)
            return seconds, jobs.stops_ms, subject.result(directory), apart
        finally:
            os.chdir("/")
            jobs.kill()


def is_running_after(job, seconds):
    try:
        job.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        return True


def interval(ratios):
    """Of their mean, 95 %: from pairs that were run one after the other."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.mean(logs)
    # Student's t for 19 degrees of freedom, as PAIRS have.
    half = (2.093 * statistics.stdev(logs) / len(logs) ** 0.5) if len(logs) > 1 else math.inf
    return math.exp(middle - half), math.exp(middle), math.exp(middle + half)


def compare(name, full):
    steps, pause = SIZES[name][full]
    subject, options = SUBJECTS[name](), Options(steps)
    runs = {"natively": [], "cr_run": [], "saved": []}
    for turn in range(PAIRS if full else 1):
        ways = ["natively", "cr_run", *(["saved"] if turn % 4 == 0 else [])]
        for way in sorted(ways, reverse=turn % 2 == 1):
            runs[way].append(run(subject, options, way, pause))
    expected = runs["natively"][0][2]
    if any(one[2] != expected for ways in runs.values() for one in ways):
        sys.exit(f"{name}: another result")
    seconds = {way: [one[0] for one in ones] for way, ones in runs.items()}
    native = statistics.median(seconds["natively"])
    # A difference that natively there is between one run and the next says nothing.
    spread = max(seconds["natively"]) / min(seconds["natively"])
    low, mean, high = interval([b / a for a, b in zip(seconds["natively"], seconds["cr_run"])])
    tell(f"{name} under cr_run: {native:.2f} -> {statistics.median(seconds['cr_run']):.2f} s, ratio", mean,
         "\u2264 1.01", low <= 1.01 if full else None,
         f"95 %: {low:.3f} to {high:.3f}, {len(seconds['cr_run'])} pairs; natively they differ by "
         f"{100 * (spread - 1):.1f} %")
    tests = {way: [one[3] for one in ones] for way, ones in runs.items()}
    if any(tests["natively"]):
        tested = {way: statistics.median(times) for way, times in tests.items()}
        tell(f"  of that, MPIRandomAccess: {tested['natively']:.2f} -> {tested['cr_run']:.2f} s, ratio",
             tested["cr_run"] / tested["natively"], "", None, "millions of MPI_Testany a second")
        low, mean, high = interval([
            (b - c) / (a - d) for a, b, c, d in zip(seconds["natively"], seconds["cr_run"],
                                                    tests["cr_run"], tests["natively"])])
        tell("  all else, ratio", mean, "\u2264 1.01", low <= 1.01 if full else None, f"95 %: {low:.3f} to {high:.3f}")
    stops = [sum(one[1]) / 1000 for one in runs["saved"]]
    if not any(one[1] for one in runs["saved"]):
        sys.exit(f"{name}: was never saved")
    saved, stopped = statistics.median(seconds["saved"]), statistics.median(stops)
    count = sum(len(one[1]) for one in runs["saved"])
    tell(f"{name} saved every {pause} s: {native:.2f} -> {saved:.2f} s, ratio", saved / native,
         f"\u2264 {1.01 + stopped / native:.3f}", saved <= 1.01 * native + stopped,
         f"{count} snapshots in {len(stops)} runs, stops {1000 * stopped:.0f} ms a run")


def tell(what, ratio, target, met, remark):
    verdict = "" if met is None else "met" if met else "MISSED"
    print(f"    {what:58} {ratio:6.3f}   {target}  {verdict} ({remark})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it runs")
    full = parser.parse_args().full
    for name, program in (("melt", "lmp"), ("hpcc", "hpcc")):
        if shutil.which(program):
            compare(name, full)


if __name__ == "__main__":
    main()
