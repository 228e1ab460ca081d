#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of four ranks that comes back with unequal shares of its nodes, then on fewer of them; it is told
of both (examples/uneven_mpi.c), and what it prints in the end is what it prints undisturbed.

    weights_test.py --bin DIRECTORY --mpirun mpirun -- ./uneven_mpi STEPS

Nodes are names, all of them on this machine. With --build it is Open MPI 5.0 (inside.py), on one node:
its launcher crashes at the names of others where there is no network but loopback.
"""
import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "system" / "programs"))
import job_test  # noqa: E402 (the path above is needed)
from waiting import wait_until  # noqa: E402

RANKS = 4
# Each restart: its weights, the node of each rank, and its units of work, of 4800 together.
RESTARTS = [("two=1,one=3", ["one", "two", "one", "one"], [1200, 1200, 1200, 1200]),
            ("one=1,two=2", ["one", "two", "two", "two"], [1600, 1067, 1066, 1067]),
            ("two=1", ["two"] * 4, [1200] * 4)]
IN_BLOCKS = [("one=3,two=1", ["one", "one", "one", "two"], [1200, 1200, 1200, 1200]),
             ("one=1,two=2", ["one", "two", "two", "two"], [1600, 1067, 1066, 1067]),
             ("two=1", ["two"] * 4, [1200] * 4)]


def stand_in(directory):
    """What launchers take for ssh: [OPTION ...] HOST COMMAND. The environment of "another node" has
    nothing of the test's but where libraries are."""
    script = Path(directory, "ssh")
    script.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1\nshift\n'
                      f'mkdir -p "{directory}/$host"\n'
                      f'exec env -i "PATH=$PATH" "TMPDIR={directory}/$host" CRYO_NODE="$host" '
                      'CRYO_LISTEN=127.0.0.1 ${LD_LIBRARY_PATH:+"LD_LIBRARY_PATH=$LD_LIBRARY_PATH"} '
                      'OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 '
                      'PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 sh -c "$*"\n')
    script.chmod(0o755)
    return str(script)


def restarts_of(options):
    if options.build:
        host = os.uname().nodename
        return [(f"{host}=2", [host] * RANKS, [1200] * RANKS)]
    return IN_BLOCKS if "mpich" in options.mpirun else RESTARTS


def first_line(options, ssh):
    """The launcher, which shares the ranks out in turn."""
    way = [] if options.build else ["--host", "one:2,two:2", "--map-by", "node"]
    if "mpich" in options.mpirun:
        way = ["-launcher", "ssh", "-launcher-exec", ssh, "-localhost", "127.0.0.1", "-hosts",
               "one:2,two:2", "-ppn", "1"]
    return [options.mpirun, *way, "-n", str(RANKS)]


def told(text):
    """Of each restart and rank: nodes before and now, their numbers, and the number of units."""
    found = re.findall(r"^# restart (\d+): rank (\d+) was on (\S+), 1 of (\d+) nodes, and is on (\S+), "
                       r"1 of (\d+): units (\d+)-(\d+)\s*$", text, re.M)
    return {(int(restart), int(rank)): (before, int(count), now, int(count_now),
                                        int(last) - int(first) + 1)
            for restart, rank, before, count, now, count_now, first, last in found}


def check_told(jobs, number, before, expected):
    """Awaits the lines of all ranks."""
    _, nodes, units = expected
    keys = {(number, rank) for rank in range(RANKS)}
    wait_until("what ranks are told",
               lambda: jobs.job.poll() is not None or keys <= told(jobs.text()).keys(),
               jobs.options.patience, describe=jobs.text)
    found = told(jobs.text())
    if not keys <= found.keys():
        jobs.fail("the job came to its end, and not all ranks are told")
    for rank in range(RANKS):
        wanted = (before[rank], len(set(before)), nodes[rank], len(set(nodes)), units[rank])
        if found[number, rank] != wanted:
            jobs.fail(f"rank {rank} is told {found[number, rank]}, not {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bin", "mpirun"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--build", help="with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    options.transport, options.patience = "ucx" if "mpich" in options.mpirun else "tcp", 150
    with tempfile.TemporaryDirectory(prefix="cryo-w-", dir="/tmp") as directory:
        jobs = job_test.Jobs(options, directory)
        ssh = stand_in(directory)
        # Open MPI's daemon sometimes crashes while it copies what it knows of the processors.
        jobs.settings.update(OMPI_MCA_plm_rsh_agent=ssh, OMPI_MCA_rtc="^hwloc",
                             PRTE_MCA_plm_ssh_agent=ssh)
        mpirun = first_line(options, ssh)
        try:
            jobs.start([*jobs.prefix, *mpirun, *options.command])
            if jobs.wait() != 0:
                jobs.fail("natively, the job fails")
            natively = job_test.result(jobs.text())
            jobs.start([*jobs.command("cr_run"), *mpirun, *options.command])
            restarts = restarts_of(options)
            before = restarts[0][1] if options.build else ["one", "two", "one", "two"]
            for number, expected in enumerate(restarts, 1):
                reference = jobs.save("--term")
                if reference is None:
                    jobs.fail("the job came to its end before it was saved")
                jobs.start([*jobs.command("ompi-restart"), "--weights", expected[0], reference])
                check_told(jobs, number, before, expected)
                before = expected[1]
            if jobs.wait() != 0:
                jobs.fail("the job fails")
            if job_test.result(jobs.text()) != natively or not natively:
                jobs.fail("natively:\n" + "\n".join(natively) + "\nsaved:")
        finally:
            jobs.kill()
    print(f"{len(restarts)} restarts with weights: the same result")


if __name__ == "__main__":
    main()
