#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes that 25 snapshots of a job take with deltas, beside complete images taken at the same moments;
then the job comes back from the last delta, and its result is that of an undisturbed one.

    job_deltas_bench [--full]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join("@PROJECT_SOURCE_DIR@", "tests", "mpi", "traffic"))
from foreign_programs import SUBJECTS, make_directory  # noqa: E402 (needs the path above)
from job_test import Jobs, result  # noqa: E402

WAYS = {"complete": [], "delta": ["--delta"], "incremental": ["--delta=incremental"]}


class Options:
    bin = "@PROJECT_BINARY_DIR@/bin"
    mpirun = "@CRYO_MPIRUN@"
    transport = "vader"
    ranks = 2
    patience = 600
    size = 0
    steps = 0


class Deltas:
    """The tests' own: one page of a hundred changes in each round."""
    command = ["@CMAKE_CURRENT_BINARY_DIR@/../../mpi/deltas", "100"]

    def prepare(self, _):
        return {}

    def result(self, directory):
        return result((directory / "output").read_text())


def save(jobs, way):
    done = subprocess.run([jobs.asking, "--json", "--name", way, *WAYS[way], str(jobs.job.pid)],
                          env=jobs.settings, text=True, capture_output=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        jobs.fail(f"ompi-checkpoint: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def undisturbed(jobs, subject, command, directory):
    jobs.start(command)
    if jobs.wait() != 0:
        jobs.fail("the job fails")
    return subject.result(directory)


def measure(name, subject, options, count, pause):
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as top:
        directory = make_directory(top, "d", subject.prepare(options))
        jobs = Jobs(options, directory)
        jobs.settings.update(OMP_NUM_THREADS="1")
        command = [options.mpirun, "-n", str(options.ranks), *subject.command]
        os.chdir(directory)
        made = {way: [] for way in WAYS}
        try:
            expected = undisturbed(jobs, subject, command, directory)
            jobs.hold()
            jobs.start([*jobs.command("cr_run"), *command])
            for _ in range(count):
                time.sleep(pause)
                for way in WAYS:
                    made[way].append(save(jobs, way))
            jobs.kill()
            jobs.let_end()
            jobs.start([*jobs.command("ompi-restart"), "delta"])
            if jobs.wait() != 0:
                jobs.fail("the job does not come back from its last delta")
            if subject.result(directory) != expected:
                sys.exit(f"{name}: another result")
        finally:
            os.chdir("/")
            jobs.kill()
    tell(name, made)


def tell(name, made):
    complete = sum(one["bytes"] for one in made["complete"])
    for way, all_of_it in made.items():
        total = sum(one["bytes"] for one in all_of_it)
        stop = max(one["longest_stop_ns"] for one in all_of_it) / 1e6
        chain = max(len(one.get("needs", [])) + 1 for one in all_of_it)
        print(f"    {name}, {len(all_of_it)} snapshots, {way:12} {total / 1e6:10.1f} MB  "
              f"{total / complete:6.3f} of complete ones; at most {chain} images, {stop:.0f} ms stop",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it runs")
    full = parser.parse_args().full
    count, pause = (25, 0.3) if full else (3, 0.1)
    measure("a page of a hundred", Deltas(), Options(), count, pause)
    if shutil.which("lmp"):
        options = Options()
        options.size, options.steps = (20, 4000) if full else (6, 8000)
        measure("LAMMPS, a liquid", SUBJECTS["melt"](), options, count, pause)


if __name__ == "__main__":
    main()
