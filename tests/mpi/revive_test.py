#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves the ranks of an MPI job between two MPI calls, kills the job, and restarts every rank under
a fresh mpirun. What it then prints must be what it prints natively.

    revive_test.py --bin build/bin --preload a.so:b.so --ranks 2 --transport vader -- ./program ...

The program stands still between the calls in wait_here() (programs/pause.h), and is saved, killed
and restarted at each such place.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run_mpi import (TRANSPORTS, descendants, eager, environment, need_old_ids,
                     show_where_they_wait)

LARGEST = 4 << 20 # bytes of an image of a program that is nothing but MPI calls


class Job:
    """An mpirun with its ranks, which ends with the object."""

    def __init__(self, command, settings):
        with eager(settings):
            self.process = subprocess.Popen(command, env=settings, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                            process_group=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        for process in reversed(descendants(self.process.pid)):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()

    def result(self, patience):
        try:
            output, errors = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            show_where_they_wait(self.process.pid)
            self.kill()
            sys.exit("the job hangs")
        return self.process.returncode, output, errors


def settings_of(options, directory):
    settings = environment(directory, options.transport) | {"CRYO_SCRATCH": directory}
    if not options.as_users_do:
        settings["CRYO_RANK_ALONE"] = "1"
    return settings


def await_condition(what, condition, job, patience):
    end = time.monotonic() + patience
    while not condition():
        if job.process.poll() is not None:
            code, output, errors = job.result(patience)
            sys.exit(f"the job ended before {what}: exit code {code}\n{output}\n{errors}")
        if time.monotonic() > end:
            show_where_they_wait(job.process.pid)
            sys.exit(f"in vain: {what}")
        time.sleep(0.01)


def wait_until_all_are_here(directory, place, options, job):
    """The pids of the ranks."""
    places = [Path(directory, f"here.{place}.{rank}") for rank in range(options.ranks)]
    await_condition("all ranks are where they shall be",
                    lambda: all(place.exists() for place in places), job, options.patience)
    return [int(place.read_text()) for place in places]


def finish(job, options, what):
    code, output, errors = job.result(options.patience)
    if code != 0:
        sys.exit(f"{what}: exit code {code}\n{output}\n{errors}")
    return sorted(line for line in output.splitlines() if not line.startswith("#"))


def run_natively(options):
    with tempfile.TemporaryDirectory(prefix="cryo-mpi-") as directory:
        settings = settings_of(options, directory)
        settings["OMPI_MCA_opal_signal"] = ""
        for place in range(options.places):
            Path(directory, f"go.{place}").touch()
        with Job([options.mpirun, "-n", str(options.ranks), *options.command], settings) as job:
            return finish(job, options, "natively")


def inspect(options, image):
    """An image holds nothing of the MPI library, and little else."""
    told = subprocess.run([options.bin / "cr_inspect", "--json", image], capture_output=True,
                          check=True, text=True).stdout
    records = json.loads(told)["snapshots"][0]["images"][0]["records"]
    foreign = [file["path"] for file in records["file"]
               if any(name in file["path"] for name in ("libmpi.so", "libopen-", "mca_", "libpmix",
                                                        "vader_segment", "socket:"))]
    if foreign or records.get("socket"):
        sys.exit(f"{image} holds what is the MPI library's: {foreign} {records.get('socket')}")
    if len(records["thread"]) != options.threads:
        sys.exit(f"{image} has {len(records['thread'])} threads, not {options.threads}")
    size = image.stat().st_size
    if options.small and size > LARGEST:
        sys.exit(f"{image} has {size} bytes, more than {LARGEST}")
    return size


def first_command(options):
    mpirun = [options.mpirun, "-n", str(options.ranks)]
    cr_run = [options.bin / "cr_run"]
    return {"preload": mpirun + ["-x", f"LD_PRELOAD={options.preload}"],
            "inside": mpirun + cr_run,
            "around": cr_run + ["--no-mpi"] + mpirun}[options.start] + options.command


def run_refused(options):
    """No image is made, the reason is told, and the program goes on to its end."""
    with tempfile.TemporaryDirectory(prefix="cryo-mpi-") as directory:
        settings = settings_of(options, directory)
        image = Path(directory, "context")
        with Job(first_command(options), settings) as job:
            for pid in wait_until_all_are_here(directory, 0, options, job):
                done = subprocess.run([options.bin / "cr_checkpoint", "-f", image, str(pid)],
                                      capture_output=True, text=True, check=False)
                if done.returncode == 0 or options.refused not in done.stderr or image.exists():
                    sys.exit(f"not refused as expected: {done.returncode}\n{done.stderr}")
            Path(directory, "go.0").touch()
            return finish(job, options, "after it was refused")


def grow(directory, options):
    """As if the program had gone on, and written more, before it was killed."""
    for path in sorted(Path(directory).glob(options.grow)) if options.grow else []:
        with open(path, "ab") as file:
            file.write(b"written later")


def run_restarted(options):
    with tempfile.TemporaryDirectory(prefix="cryo-mpi-") as directory:
        settings = settings_of(options, directory)
        images = [Path(directory, f"context.{rank}") for rank in range(options.ranks)]
        command = first_command(options)
        sizes = []
        for place in range(options.places):
            with Job(command, settings) as job:
                pids = wait_until_all_are_here(directory, place, options, job)
                for image, pid in zip(images, pids):
                    done = subprocess.run([options.bin / "cr_checkpoint", "--clobber", "-f", image,
                                           str(pid)], capture_output=True, text=True, check=False)
                    if done.returncode != 0:
                        sys.exit(f"cr_checkpoint of a rank: {done.stderr}")
            sizes = [inspect(options, image) for image in images]
            print(f"place {place}: images of {sizes} bytes")
            # A shell chooses the image by its rank; the process of a rank must be the restored one.
            ids = "--prefer-pid" if options.old_ids else "--no-restore-pid"
            restart = [options.bin / "cr_restart", "-q", ids]
            line = " ".join(f"'{word}'" for word in restart)
            command = [options.mpirun, "-n", str(options.ranks), "/bin/sh", "-c",
                       f"exec {line} -f '{directory}/context.'$OMPI_COMM_WORLD_RANK"]
            grow(directory, options)
            Path(directory, f"go.{place}").touch()
        with Job(command, settings) as job:
            return finish(job, options, "restarted")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=TRANSPORTS, default="vader")
    parser.add_argument("--patience", type=int, default=150, help="seconds until a job hangs")
    parser.add_argument("--places", type=int, default=1, help="how often it calls wait_here()")
    parser.add_argument("--start", choices=("preload", "inside", "around"), default="preload",
                        help="where cr_run is: nowhere, inside of mpirun, around it")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--refused", help="it cannot be saved, and this must be said")
    parser.add_argument("--as-users-do", action="store_true",
                        help="without the variable by which a rank may be saved alone")
    parser.add_argument("--old-ids", action="store_true",
                        help="the ids must be as before; left out where they are not to be had")
    parser.add_argument("--grow", metavar="PATTERN",
                        help="files of the program's that are longer when it is restarted")
    parser.add_argument("--small", action="store_true", help="the images must be")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.old_ids:
        need_old_ids()

    natively = run_natively(options)
    restarted = run_refused(options) if options.refused else run_restarted(options)
    if not natively or restarted != natively:
        sys.exit("the outputs differ\n--- natively\n" + "\n".join(natively) +
                 "\n--- restarted\n" + "\n".join(restarted))
    print(f"{len(natively)} lines, the same natively and restarted")


if __name__ == "__main__":
    main()
