#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs an MPI program undisturbed and with checkpoints at random times, in which nothing is saved:
each goes to the point where the image would be taken and on from there. Both must print the same.

    cuts_test.py --preload libcryo_openmpi.so --daemon cut_daemon --ranks 2 -- ./program ARGUMENT ...

--build BUILD runs it with Open MPI 5.0, in a tree of another release (inside.py).
--drains: messages must have been drained and receives withdrawn on the way.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import inside  # noqa: E402
import run_mpi  # noqa: E402


def run(options, settings, command, code=0):
    result = run_mpi.run_job(command, settings, options.patience)
    if result[0] != code:
        sys.exit(f"{' '.join(command)}: exit code {result[0]}\n{result[1]}\n{result[2]}")
    return sorted(line for line in result[1].splitlines() if not line.startswith("#"))


def totals(report):
    """The sums over all ranks of what the engines counted."""
    sums = {}
    for line in report.read_text().splitlines():
        words = line.split()
        for name, value in zip(words[::2], words[1::2]):
            sums[name] = sums.get(name, 0) + int(value)
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--daemon", required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=run_mpi.TRANSPORTS, default="vader")
    parser.add_argument("--patience", type=int, default=150)
    parser.add_argument("--pause", type=int, default=2000, help="microseconds between two cuts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=10, help="cuts that there must be")
    parser.add_argument("--drains", action="store_true")
    parser.add_argument("--build", help="run it with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    mpirun = [options.mpirun, "-n", str(options.ranks)]
    with tempfile.TemporaryDirectory(prefix="cryo-") as directory:
        settings = run_mpi.environment(directory, options.transport)
        settings["CRYO_SCRATCH"] = directory
        if options.build:
            mpirun = inside.prefix(options.build) + mpirun
            settings.update(inside.environment(options.build, directory))
        preloaded = [*mpirun, *run_mpi.exporting(options.mpirun, "LD_PRELOAD", options.preload),
                     *options.command]
        undisturbed = run(options, settings, preloaded)
        socket, report = Path(directory, "tree"), Path(directory, "report")
        with subprocess.Popen([options.daemon, socket, str(options.ranks), str(options.seed),
                               str(options.pause)], stdout=subprocess.PIPE, text=True) as daemon:
            daemon.stdout.readline()
            settings.update(CRYO_RANK_SOCKET=str(socket), CRYO_TRAFFIC_REPORT=str(report))
            try:
                disturbed = run(options, settings, preloaded)
                said = daemon.communicate(timeout=100)[0]
            finally:
                daemon.kill()
        sums = totals(report)
    print(said, sums)
    if disturbed != undisturbed:
        sys.exit("the outputs differ\n--- undisturbed\n" + "\n".join(undisturbed) +
                 "\n--- with cuts\n" + "\n".join(disturbed))
    if daemon.returncode != 0:
        sys.exit("a checkpoint was abandoned")
    if sums["cuts"] < options.least * options.ranks:
        sys.exit(f"fewer than {options.least} cuts")
    if options.drains and not (sums["drained"] and sums["withdrawn"]):
        sys.exit("no message was drained, or no receive was withdrawn")


if __name__ == "__main__":
    main()
