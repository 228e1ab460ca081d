#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job is saved and brought back ten times in a row: neither its images nor the descriptors and
mappings of its ranks become more.

    generations_test.py --bin DIRECTORY --ranks 2 -- ./program ARGUMENT ...

The program must not come to its end meanwhile.
"""
import os
import sys
import tempfile
from pathlib import Path

import job_test
import run_mpi


def ranks_of(job, program):
    """Their pids, in the order of the ranks."""
    found = {}
    for pid in run_mpi.descendants(job.pid):
        try:
            if os.path.realpath(os.readlink(f"/proc/{pid}/exe")) != os.path.realpath(program):
                continue
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError: # it has ended
            continue
        for word in environment:
            if word.startswith(b"OMPI_COMM_WORLD_RANK="): # a copy of it, if one is left, comes later
                found.setdefault(int(word.split(b"=")[1]), pid)
    return [found[rank] for rank in sorted(found)]


def measure(pid):
    mappings = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "mappings": len(mappings),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def main():
    parser = job_test.options_of_jobs(__doc__, patience=120, generations=10)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    mpirun = [*options.mpirun.split(), "-n", str(options.ranks)]
    seen = []
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as directory:
        jobs = job_test.Jobs(options, directory)
        try:
            jobs.start([*jobs.command("cr_run"), *mpirun, *options.command])
            for _ in range(options.generations + 1):
                # One that goes on: all ranks have met, in MPI, when it is made.
                if jobs.save() is None:
                    jobs.fail("the job came to its end before it was saved")
                pids = ranks_of(jobs.job, options.command[0])
                now = [measure(pid) for pid in pids]
                reference = jobs.save("--term")
                if reference is None or len(now) != options.ranks:
                    jobs.fail(f"not saved, or not all ranks: {now}")
                newest = max(Path(directory, "snapshots", reference).glob("[0-9]*"),
                             key=lambda path: int(path.name))
                for rank, one in enumerate(now):
                    one["image"] = size_of(newest / f"opal_snapshot_{rank}.ckpt")
                seen.append(now)
                print(now, flush=True)
                jobs.start([*jobs.command("ompi-restart"), reference])
        finally:
            jobs.kill()
    # A rank that was never brought back has a few mappings more. What is under way when it is saved
    # makes one image larger than another; what grows makes the smallest larger, too. Libraries take
    # turns at two places, and beside one of these the kernel joins mappings: their number goes up and
    # down by two.
    half = len(seen) // 2
    for rank in range(options.ranks):
        for what in seen[0][rank]:
            before, after = (min(now[rank][what] for now in part)
                             for part in (seen[1:half + 1], seen[half + 1:]))
            if after > before + (32768 if what == "image" else 1):
                sys.exit(f"rank {rank}: {what}: {before} became {after}")
    print(f"{len(seen) - 1} generations: nothing grows")


if __name__ == "__main__":
    main()
