#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole MPI job is saved at some moment, ended, and brought back, again and again; what it prints
in the end is what it prints undisturbed.

    job_test.py --bin DIRECTORY --ranks 2 -- ./program ARGUMENT ...

The program writes nothing before its end. The last number among its arguments says how much it does;
more is asked for on a machine that has done with it in less than --seconds.

With CRYO_SOAK in the environment it is saved six times 26 times, or with --soak-restarts N N times,
and each restart is by another transport than the one before.
"""
import argparse
import math
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import inside  # noqa: E402
import run_mpi  # noqa: E402

OPEN_MPI = ["vader", "tcp", "both"] # transports that a restart may change between


class Jobs:
    are_eager = True # their ranks wait for messages most of the time

    def __init__(self, options, directory):
        self.options = options
        self.directory = Path(directory)
        self.settings = run_mpi.environment(directory, options.transport)
        self.settings.update(
            CRYO_RUNTIME_DIR=f"{directory}/run", CRYO_LISTEN="127.0.0.1",
            OMPI_MCA_snapc_base_global_snapshot_dir=f"{directory}/snapshots",
            CRYO_TRAFFIC_REPORT=f"{directory}/report", CRYO_SCRATCH=str(directory),
            CRYO_HOLD=str(self.directory / "hold"))
        self.build = getattr(options, "build", None)
        self.prefix = [] # of commands in the tree of another release, with Open MPI 5.0
        self.others = inside.environment(self.build, directory) if self.build else {}
        self.go_there(bool(self.build))
        self.asking = f"{options.bin}/ompi-checkpoint" # of this release, wherever the job is
        self.settings.update(setting.split("=", 1) for setting in getattr(options, "set", []))
        self.settings.pop("PMIX_MCA_gds") # for libraries that are opened again in one job
        self.stops_ms = [] # the slowest rank's, of each snapshot
        self.snapshots = 0 # that were made
        self.job = None

    def go_there(self, there):
        """From now on jobs run with Open MPI 5.0, or no longer."""
        self.prefix = inside.prefix(self.build) if there else []

    def environment(self):
        return self.settings | (self.others if self.prefix else {})

    def command(self, name):
        return [*self.prefix, f"{self.options.bin}/{name}"]

    def start(self, words, is_job=True):
        with open(self.directory / "output", "w", encoding="utf-8") as output, \
                run_mpi.eager(self.settings if self.are_eager else {}):
            self.job = subprocess.Popen(words, env=self.environment(), stdin=subprocess.DEVNULL,
                                        stdout=output, stderr=output, process_group=0)
        # Not before can it be asked; here it is not seen who it is meanwhile.
        while is_job and self.prefix and self.job.poll() is None and not inside.is_job(self.job.pid):
            time.sleep(0.01)

    def hold(self):
        """From now on jobs of programs that know of it come to no end, until let_end()."""
        (self.directory / "hold").touch()

    def let_end(self):
        (self.directory / "hold").unlink()

    def memory(self):
        """What programs of these tests keep by a name."""
        return Path("/dev/shm", self.directory.name)

    def is_made_by_ranks(self):
        return any(Path(f"{self.directory}/run").glob(f"{self.job.pid}-*/.variables"))

    def text(self):
        return (self.directory / "output").read_text()

    def fail(self, why):
        print(f"{why}\n{self.text()}", file=sys.stderr)
        if self.job.poll() is None:
            run_mpi.show_where_they_wait(self.job.pid)
        sys.exit(1)

    def save(self, *how):
        """The reference of a snapshot; None when the job came to its end before."""
        try:
            done = subprocess.run([self.asking, "-v", *how, str(self.job.pid)],
                                  env=self.settings, text=True, capture_output=True, check=False,
                                  timeout=self.options.patience, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as over: # what the job waits for is still to be seen
            self.fail(f"ompi-checkpoint does not end:\n{(over.stdout or b'').decode()}")
        if told := re.search(r"stood still for at most ([\d.]+) (ms|s)", done.stdout):
            self.stops_ms.append(float(told[1]) * (1000 if told[2] == "s" else 1))
        if found := re.search(r"^Snapshot Ref\.: +(\d+) (\S+)$", done.stdout, re.M):
            self.snapshots += 1
            if "--term" in how:
                self.wait()
            return found[2]
        if "ended" in done.stderr or "is gone" in done.stderr: # it was coming to its end
            self.wait()
        if self.job.poll() is None:
            self.fail(f"ompi-checkpoint: {done.returncode}\n{done.stdout}{done.stderr}")
        return None

    def save_automatically(self):
        """The reference of a snapshot that cr_run --interval has made; the job is killed."""
        log = self.directory / "snapshots" / "keeper.log"
        done = lambda: log.read_text().count("on the disk") if log.exists() else 0  # noqa: E731
        before = done()
        end = time.monotonic() + self.options.patience
        while done() < before + 2:
            if self.job.poll() is not None:
                return None
            if time.monotonic() > end:
                self.fail("no automatic snapshots")
            time.sleep(0.01)
        self.kill()
        return "context.ckpt"

    def wait(self):
        try:
            return self.job.wait(self.options.patience)
        except subprocess.TimeoutExpired:
            self.fail("the job hangs")
        return None

    def kill(self):
        if self.job is not None and self.job.poll() is None:
            for pid in reversed(run_mpi.descendants(self.job.pid)):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.job.wait()


def result(text):
    """What the program has printed."""
    return sorted(re.findall(r"^\d+: [0-9A-Fa-f]{16}$", text, re.M))


def options_of_jobs(description, patience, generations):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--mpirun", default="mpirun", help="the launcher, with options of its own")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--transport", choices=run_mpi.TRANSPORTS, default="vader")
    parser.add_argument("--patience", type=int, default=patience)
    parser.add_argument("--generations", type=int, default=generations,
                        help="times it is saved, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a variable of the job's environment")
    return parser


def more_of(command, times):
    """The command, for so many times the work."""
    numbers = [i for i, word in enumerate(command) if word.isdigit()]
    if not numbers:
        return None
    return [str(int(word) * times) if i == numbers[-1] else word
            for i, word in enumerate(command)]


def timed(jobs, words):
    """The seconds that an undisturbed job takes."""
    begun = time.monotonic()
    jobs.start(words)
    if jobs.wait() != 0:
        jobs.fail("undisturbed, the job fails")
    return time.monotonic() - begun


def measure(jobs, mpirun, options):
    """What the job prints natively, and the seconds that it takes under cr_run; options.command is
    made long enough."""
    # Under cr_run, since some do more when they are to be saved, and some are done sooner: threads
    # that wait for one another by looking. All that a job needs to begin and to end is in the time,
    # too, so the first guess may be short.
    took = 0
    for _ in range(5 if options.seconds else 0):
        took = timed(jobs, [*jobs.command("cr_run"), *mpirun, *options.command])
        more = more_of(options.command, max(2, math.ceil(options.seconds / took)))
        if took >= options.seconds or not more:
            break
        options.command = more
    natively = timed(jobs, [*jobs.prefix, *mpirun, *options.command])
    return result(jobs.text()), took or natively


def main():
    parser = options_of_jobs(__doc__, patience=120, generations=1)
    parser.add_argument("--seconds", type=float, default=1.4,
                        help="that the job takes under cr_run, at least; 0: it takes long enough")
    parser.add_argument("--pass", type=int, default=0, dest="passing",
                        help="times it is saved and goes on, in each generation; once at least in the "
                             "first")
    parser.add_argument("--build", help="with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("--alternate", action="store_true",
                        help="each generation with the other release's Open MPI, the first with 5.0")
    parser.add_argument("--automatic", action="store_true",
                        help="it is saved by cr_run --interval, and killed")
    parser.add_argument("--within", action="store_true",
                        help="not the launcher is under cr_run, but each rank")
    parser.add_argument("--script", action="store_true",
                        help="cr_run starts a shell, which starts the launcher")
    parser.add_argument("--old-ids", action="store_true",
                        help="left out where processes cannot have the ids that they had")
    parser.add_argument("--reboot", action="store_true",
                        help="named memory is gone when the job is brought back")
    parser.add_argument("--soak-restarts", type=int, metavar="N",
                        help="with CRYO_SOAK: saved and brought back so many times; the program goes "
                             "on with its work until it may end")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.old_ids:
        run_mpi.need_old_ids()
    random.seed(" ".join([str(options.seed), *map(os.path.basename, options.command)]))
    transports = [options.transport]
    if os.environ.get("CRYO_SOAK"):
        options.generations, options.patience = options.soak_restarts or 6, 300
        if not options.soak_restarts:
            options.seconds *= 20
        options.passing = 0 if options.automatic or options.soak_restarts else 25
        if options.transport in OPEN_MPI:
            first = OPEN_MPI.index(options.transport)
            transports = OPEN_MPI[first:] + OPEN_MPI[:first]

    mpirun = [*options.mpirun.split(), "-n", str(options.ranks)]
    with tempfile.TemporaryDirectory(prefix="cryo-j-", dir="/tmp") as directory:
        jobs = Jobs(options, directory)
        try:
            natively, took = measure(jobs, mpirun, options)
            # A job hangs when it takes far longer than it just did: on a busy machine, ranks that
            # yield while they wait come to their turn late.
            options.patience = max(options.patience, math.ceil(10 * took))
            longest_pause = min(0.3, took / 8 / (options.passing + 1)) # it shall not be over
            automatic = ["--interval", "200ms", "--into", f"{directory}/snapshots"]
            automatic = automatic if options.automatic else []
            under_cr_run = [*jobs.command("cr_run"), *automatic]
            jobs.hold()
            if options.script:
                script = "exec " + shlex.join([*mpirun, *options.command])
                jobs.start([*under_cr_run, "--mpi", "sh", "-c", script])
            else:
                jobs.start([*mpirun, *under_cr_run, *options.command] if options.within else
                           [*under_cr_run, *mpirun, *options.command])
            # Before that, nothing tells that Cryo has to do with this launcher.
            while options.within and jobs.job.poll() is None and not jobs.is_made_by_ranks():
                time.sleep(0.01)
            saved = 0
            # Another release has another C library: the program takes its own along.
            ending = ["--term", *(["--save-all"] if options.alternate else [])]
            for generation in range(options.generations):
                # Any moment will do, also one of its beginning.
                time.sleep(random.uniform(0, longest_pause))
                # What is saved first has begun by then: the next moment is one in its midst.
                for _ in range(max(options.passing, generation == 0 and not options.automatic)):
                    jobs.save()
                    time.sleep(random.uniform(0, longest_pause))
                reference = jobs.save_automatically() if options.automatic else jobs.save(*ending)
                if reference is None:
                    break
                saved += 1
                if options.reboot:
                    jobs.memory().unlink(missing_ok=True) # before it has been made, there is none
                if options.alternate:
                    jobs.go_there(not jobs.prefix)
                jobs.settings.update(run_mpi.TRANSPORTS[transports[saved % len(transports)]])
                jobs.start([*jobs.command("ompi-restart"), *automatic, reference])
            jobs.let_end()
            if jobs.wait() != 0:
                jobs.fail("the job fails")
            if result(jobs.text()) != natively or not natively:
                jobs.fail("natively:\n" + "\n".join(natively) + f"\nsaved {saved} times:")
        finally:
            jobs.kill()
            jobs.memory().unlink(missing_ok=True)
        if saved == 0:
            sys.exit("the job came to its end before it was saved")
        print(f"{jobs.snapshots} snapshots, restarted {saved} times: the same result")


if __name__ == "__main__":
    main()
