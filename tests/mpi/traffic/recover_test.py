#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MPI job under `cr_run --recover`: ranks and the launcher are killed at random moments, and what the
job prints in the end is what it prints undisturbed, with exit status 0.

    recover_test.py --bin DIRECTORY --ranks 2 [--transfer] -- ./program ARGUMENT ...

The program writes nothing before its end, and goes on until it may end (CRYO_HOLD).
"""
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "system" / "programs"))
import job_test  # noqa: E402
import processes  # noqa: E402
import run_mpi  # noqa: E402

POLICY = """[[fault]]
limit = 5
"""
TRANSFER = """recover = "transfer"
memory = "1GiB"
"""


class Supervised(job_test.Jobs):
    def await_(self, what, condition):
        end = time.monotonic() + self.options.patience
        while not condition():
            if self.job.poll() is not None:
                self.fail(f"the job ended before {what}")
            if time.monotonic() > end:
                self.fail(f"{what}: not within {self.options.patience} s")
            time.sleep(0.005)

    def snapshots_made(self):
        log = self.directory / "kept" / "keeper.log"
        return log.read_text().count("on the disk") if log.exists() else 0

    def recoveries(self):
        return self.text().count(" is back from ")

    def victims(self):
        """The launcher, its helpers, the ranks, and what has brought a rank back: nothing else of
        Cryo's, and no copy of a rank from which an image is written."""
        helpers = ("cr_run", "keeper", "mpi-daemon", "ompi-checkpoint")
        found = []
        for pid in run_mpi.descendants(self.job.pid)[1:]:
            try:
                words = run_mpi.read(f"/proc/{pid}/cmdline")
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) not in helpers and \
                        words != run_mpi.read(f"/proc/{processes.parent(pid)}/cmdline"):
                    found.append(pid)
            except OSError:
                continue
        return found

    def left(self):
        """Processes that have to do with this job."""
        mark = f"CRYO_RUNTIME_DIR={self.directory}/run"
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if mark in run_mpi.read(f"/proc/{pid}/environ")]


def main():
    parser = job_test.options_of_jobs(__doc__, patience=150, generations=3)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--transfer", action="store_true", help="newest snapshots are held in memory")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    if os.environ.get("CRYO_SOAK"):
        options.generations *= 20
    with tempfile.TemporaryDirectory(prefix="cryo-r-", dir="/tmp") as directory:
        jobs = Supervised(options, directory)
        try:
            run(jobs, options, chance)
        finally:
            jobs.kill()


def run(jobs, options, chance):
    mpirun = [*shlex.split(options.mpirun), "-n", str(options.ranks)]
    expected, _ = job_test.measure(jobs, mpirun, options)
    if not expected:
        jobs.fail("the program prints no result")
    policy = jobs.directory / "policy.toml"
    policy.write_text(POLICY + TRANSFER * options.transfer, encoding="utf-8")
    jobs.hold()
    jobs.start([*jobs.command("cr_run"), f"--recover={policy}", "--interval", "200ms", "--into",
                f"{jobs.directory}/kept", *mpirun, *options.command])
    for killed in range(options.generations):
        seen = jobs.snapshots_made()
        jobs.await_("a snapshot", lambda n=seen: jobs.snapshots_made() > n)
        victim = chance.choice(jobs.victims())
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            jobs.fail(f"process {victim} has ended by itself")
        jobs.await_("the recovery", lambda n=killed + 1: jobs.recoveries() >= n)
    jobs.let_end()
    if (code := jobs.wait()) != 0:
        jobs.fail(f"the job ended with {code}")
    if options.transfer and jobs.text().count("; its image was ") != jobs.recoveries():
        jobs.fail("a recovery does not say whether its image was held in memory")
    if job_test.result(jobs.text()) != expected:
        jobs.fail("undisturbed:\n" + "\n".join(expected))
    end = time.monotonic() + options.patience
    while (left := jobs.left()) and time.monotonic() < end:
        time.sleep(0.01)
    if left:
        jobs.fail(f"processes {left} are left")
    print(f"{options.generations} kills: the same result")


if __name__ == "__main__":
    main()
