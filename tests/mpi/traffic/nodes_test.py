#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job on several nodes, saved and brought back with its ranks on others, again and again. A node is a
network with an address of its own, a host name and System V objects of its own (nodes.py). Needs root.

    nodes_test.py --bin DIRECTORY --on first,second --on third,fourth --on first -- ./program ...

The launcher is on the first node. With --refused TEXT the program stands still when it is saved
(programs/pause.h), and the restart fails and says that.
"""
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import job_test  # noqa: E402 (the path above is needed)
import nodes  # noqa: E402
import run_mpi  # noqa: E402


def of_the_launcher(options, where, ssh):
    """Its options for ranks on these nodes, as many on each."""
    names = where.split(",")
    if "mpich" in options.mpirun:
        return ["-launcher", "ssh", "-launcher-exec", str(ssh), "-localhost",
                nodes.address_of(nodes.NAMES[0]), "-hosts", ",".join(map(nodes.address_of, names))]
    slots = -(-options.ranks // len(names))
    return ["--map-by", "node", "--host", ",".join(f"{name}:{slots}" for name in names)]


def save(jobs):
    """It, and its end."""
    reference = jobs.save("--term")
    if reference is None:
        jobs.fail("the job came to its end before it was saved")
    return reference


def restart(jobs, way, reference):
    jobs.start([*jobs.command("ompi-restart"), "--mpirun_opts", " ".join(way), reference])


def moves(jobs, mpirun, ways, command):
    jobs.start([*mpirun, *command])
    if jobs.wait() != 0:
        jobs.fail("natively, the job fails")
    natively = job_test.result(jobs.text())
    jobs.hold()
    jobs.start([*jobs.command("cr_run"), *mpirun, *command])
    for way in ways:
        time.sleep(random.uniform(0, 0.5)) # any moment will do
        restart(jobs, way, save(jobs))
    jobs.let_end()
    if jobs.wait() != 0:
        jobs.fail("the job fails")
    if job_test.result(jobs.text()) != natively or not natively:
        jobs.fail("natively:\n" + "\n".join(natively) + "\nsaved:")


def is_refused(jobs, mpirun, way, options):
    jobs.start([*jobs.command("cr_run"), *mpirun, *options.command])
    end = time.monotonic() + options.patience
    while len(list(jobs.directory.glob("here.0.*"))) < options.ranks:
        if jobs.job.poll() is not None or time.monotonic() > end:
            jobs.fail("not all ranks have come to their place")
        time.sleep(0.01)
    restart(jobs, way, save(jobs))
    if jobs.wait() == 0 or options.refused not in jobs.text():
        jobs.fail(f"not refused as it should be: {options.refused}")


def main():
    parser = job_test.options_of_jobs(__doc__, patience=150, generations=0)
    parser.add_argument("--on", action="append", required=True,
                        help="the nodes, at first and after each restart")
    parser.add_argument("--refused", metavar="TEXT", help="what the restart says")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    random.seed(" ".join([str(options.seed), *options.on]))
    count = max(nodes.NAMES.index(name) for where in options.on for name in where.split(",")) + 1
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as directory, \
            nodes.Nodes(count, directory) as all_nodes:
        jobs = job_test.Jobs(options, directory)
        jobs.settings.update(all_nodes.settings)
        ways = [of_the_launcher(options, where, all_nodes.ssh) for where in options.on]
        mpirun = [options.mpirun, *ways[0], "-n", str(options.ranks),
                  *run_mpi.exporting(options.mpirun, "CRYO_SCRATCH", directory),
                  *run_mpi.exporting(options.mpirun, "CRYO_HOLD", jobs.settings["CRYO_HOLD"])]
        try:
            if options.refused:
                is_refused(jobs, mpirun, ways[1], options)
            else:
                moves(jobs, mpirun, ways[1:], options.command)
        finally:
            jobs.kill()
    done = "refused" if options.refused else "the same result"
    print(f"on {', then '.join(options.on)}: {done}")


if __name__ == "__main__":
    main()
