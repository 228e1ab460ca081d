#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under `cr_run --recover` on three nodes, one of them a spare, of which anything is killed at random
moments: what a job prints is what it prints undisturbed, its exit status is 0, no rank is there twice, and nothing
is left over. Needs root.

    kills_test.py --bin DIRECTORY --kills 5 -- "./program ARGUMENT ..." ...

Each job is one of these programs', in turn, and loses no more than --at-most; with CRYO_SOAK in the environment
--soak kills are made in all. The programs bear witness (programs/witness.h). CRYO_SEED sets the first seed.
"""
import argparse
import copy
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "system" / "programs"))
import distant  # noqa: E402
import foreign_programs  # noqa: E402
import inside  # noqa: E402
import job_test  # noqa: E402
import nodes_test  # noqa: E402
import processes  # noqa: E402
import recover_test  # noqa: E402
import run_mpi  # noqa: E402

BEGINS_ON, SPARE = "first,second", "third"
LAUNCHERS = ("mpirun", "mpirun.openmpi", "orterun", "prterun", "mpiexec.mpich", "mpiexec.hydra", "mpiexec")
PROXIES = ("orted", "prted", "hydra_pmi_proxy") # of launchers
OF_A_PROCESS = ("rank", "holder", "launcher", "proxy", "daemon", "first daemon")
OF_A_NODE = ("killed node", "stopped node", "cut off node")
FOREIGN_STEPS = {"melt": 1500, "peptide": 300, "hpcc": 500}
# What it costs to be wrong about the time is paid by each lost node.
DEADLINE = "2" # s: a lease is three times as long
POLICY = """[[fault]]
limit = 1000
"""


def words_of(pid):
    return run_mpi.read(f"/proc/{pid}/cmdline").split(" ")


def name_of(pid):
    return os.path.basename(words_of(pid)[0])


class Killed(recover_test.Supervised):
    def __init__(self, options, directory, nodes):
        super().__init__(options, directory)
        self.nodes = nodes
        self.lost = set()
        self.asleep = [] # what wakes lost nodes up
        self.settings.update(nodes.settings, CRYO_DEADLINE=DEADLINE, CRYO_WITNESS=str(directory))
        if self.build:
            self.prefix = inside.prefix(self.build, "--same-network")

    def of_launcher(self, where=BEGINS_ON):
        """Undisturbed, one node is enough: what the programs print depends on the ranks alone."""
        options = self.options
        exported = [word for name in ("CRYO_SCRATCH", "CRYO_WITNESS", "CRYO_HOLD")
                    for word in run_mpi.exporting(options.mpirun, name, self.settings[name])]
        return [*shlex.split(options.mpirun), *nodes_test.of_the_launcher(options, where, self.nodes.ssh),
                "-n", str(options.ranks), *exported]

    def start_supervised(self, command):
        policy = self.directory / "policy.toml"
        policy.write_text(POLICY, encoding="utf-8")
        self.start([*self.command("cr_run"), f"--recover={policy}", "--spares", SPARE, "--interval", "300ms",
                    "--into", f"{self.directory}/kept", *self.of_launcher(), *command], is_job=False)

    def everywhere(self):
        """All processes of the job but those that are elsewhere: of nodes that are lost already."""
        there = set(self.left()) | set(run_mpi.descendants(self.job.pid))
        for name in self.nodes.others:
            family = set(self.nodes.family(name))
            there = there - family if name in self.lost else there | family
        return there

    def victims(self, kind, program):
        """Without the copies of ranks from which images are written."""
        # Of a node that hangs before its daemon has come, only the launcher can know.
        if kind in ("stopped node", "cut off node") and not self.is_running():
            return []
        if kind in OF_A_NODE:
            return [name for name in self.nodes.others
                    if name not in self.lost and "mpi-daemon" in map(name_of, self.nodes.family(name))]
        there = {pid: words_of(pid) for pid in self.everywhere()}
        names = {pid: os.path.basename(words[0]) for pid, words in there.items()}
        is_one = {"rank": lambda pid: names[pid] == program and
                                      names.get(processes.parent(pid)) != program,
                  "holder": lambda pid: names[pid] == "cr_restart",
                  "launcher": lambda pid: names[pid] in LAUNCHERS and processes.parent(pid) == self.job.pid,
                  "proxy": lambda pid: names[pid] in PROXIES,
                  "daemon": lambda pid: names[pid] == "mpi-daemon" and "--node" in there[pid],
                  "first daemon": lambda pid: names[pid] == "mpi-daemon" and "--root" in there[pid]}[kind]
        return sorted(filter(is_one, there))

    def is_running(self):
        """As far as the supervisor has told."""
        told = [line for line in self.text().splitlines() if line.startswith("cr_run: ")]
        return not told or " is back from " in told[-1]

    def strike(self, kind, victim):
        """False: it has ended by itself."""
        if kind not in OF_A_NODE:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                return False
            return True
        self.lost.add(victim)
        if kind == "killed node":
            self.nodes.signal(victim, signal.SIGKILL)
        elif kind == "stopped node":
            self.nodes.signal(victim, signal.SIGSTOP)
            self.asleep.append(lambda: self.nodes.signal(victim, signal.SIGCONT))
        else:
            self.nodes.cut_off(victim)
            self.asleep.append(lambda: self.nodes.connect(victim))
        return True

    def wake(self):
        while self.asleep:
            self.asleep.pop()()

    def has_ended(self):
        return self.job.poll() is not None

    def wait(self):
        """A job hangs if no rank notes that it acts (programs/witness.h) and nothing is told of a recovery."""
        seen, end = None, 0
        while not self.has_ended():
            if (now := self.progress()) != seen:
                seen, end = now, time.monotonic() + self.options.patience
            if time.monotonic() > end:
                self.fail("the job hangs")
            time.sleep(0.05)
        return self.job.wait()

    def progress(self):
        notes = sorted((note.name, note.stat().st_mtime_ns) for note in self.directory.glob("acts.*"))
        return notes, self.recoveries()

    def rest(self):
        """What is left, but for what a launcher has left on a node that was lost: that is not Cryo's."""
        own = set()
        for name in self.lost:
            own |= {pid for pid in self.nodes.family(name) if name_of(pid) in (*PROXIES, "sh", "")}
        there = set(self.left())
        for name in self.nodes.others:
            there |= set(self.nodes.family(name))
        return {pid: " ".join(words_of(pid)) for pid in there - own if processes.exists(pid)}

    def kill(self):
        self.wake()
        super().kill()
        for name in self.nodes.others:
            self.nodes.signal(name, signal.SIGKILL)
        for pid in self.left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Program:
    """One whose work takes long enough for the kills, and what it prints."""

    def __init__(self, text, options):
        self.options = copy.copy(options)
        self.options.command = shlex.split(text)
        self.name = os.path.basename(self.options.command[0])
        self.expected = None

    def measure(self, jobs):
        if self.expected is None:
            found, _ = job_test.measure(jobs, jobs.of_launcher("first"), self.options)
            self.expected = sorted(set(found))
            if len(self.expected) != self.options.ranks:
                jobs.fail("not each rank prints a result")

    def begin(self, _directory):
        pass

    def found(self, jobs):
        return sorted(set(job_test.result(jobs.text())))


class Foreign(Program):
    """Somebody else's, in a directory of its own: what it has computed is in files there."""

    def __init__(self, text, options):
        self.subject = foreign_programs.SUBJECTS[text]()
        self.files = self.subject.prepare(argparse.Namespace(steps=FOREIGN_STEPS[text], ranks=options.ranks))
        super().__init__(shlex.join(self.subject.command), options)

    def measure(self, jobs):
        if self.expected is None:
            self.begin(directory := jobs.directory / "natively")
            job_test.timed(jobs, [*jobs.prefix, *jobs.of_launcher("first"), *self.options.command])
            self.expected = self.subject.result(directory)

    def begin(self, directory):
        os.chdir(foreign_programs.make_directory(directory.parent, directory.name, self.files))

    def found(self, jobs):
        return self.subject.result(jobs.directory / "killed")


def disturb(jobs, program, chance, most):
    """What was killed."""
    options = jobs.options
    done = []
    jobs.await_("the first snapshot", lambda: jobs.snapshots_made() > 0)
    end = time.monotonic() + options.patience
    while len(done) < most and not jobs.has_ended():
        if not done and time.monotonic() > end:
            jobs.fail("nothing is found that may be killed")
        time.sleep(chance.uniform(0, options.apart))
        kinds = [kind for kind in options.kinds if jobs.victims(kind, program.name)]
        if not kinds:
            continue
        kind = chance.choice(kinds)
        victims = jobs.victims(kind, program.name)
        before = jobs.recoveries()
        if not victims or not jobs.strike(kind, victim := chance.choice(victims)):
            continue
        done.append(kind)
        if len(done) == 1: # the job may be much faster than this test
            jobs.let_end()
        jobs.note(f"{kind} {victim}")
        # Without the first daemon a job may go on, unsaved. What is killed next may be of a recovery.
        if kind in OF_A_NODE or (kind != "first daemon" and chance.random() < 0.7):
            await_recovery(jobs, before)
        if kind in OF_A_NODE:
            jobs.wake()
    return done


def await_recovery(jobs, before):
    end = time.monotonic() + jobs.options.patience
    while jobs.recoveries() <= before and not jobs.has_ended():
        if time.monotonic() > end:
            jobs.fail(f"no recovery within {jobs.options.patience} s")
        time.sleep(0.01)


def check(jobs, program):
    if (code := jobs.wait()) != 0:
        jobs.fail(f"the job ended with {code}")
    if program.found(jobs) != program.expected:
        jobs.fail(f"undisturbed:\n{program.expected}\nfound:\n{program.found(jobs)}")
    if (jobs.directory / "doubled").exists():
        jobs.fail("a rank was there twice")
    end = time.monotonic() + jobs.options.patience
    while (rest := jobs.rest()) and time.monotonic() < end:
        time.sleep(0.05)
    if rest:
        jobs.fail(f"left over: {rest}")
    if (jobs.directory / "doubled").exists():
        jobs.fail("a rank was there twice")


class Noted(Killed):
    """With what was done, which a failed test shows."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.notes = []

    def note(self, text):
        self.notes.append(f"{time.strftime('%H:%M:%S')} {text}")

    def fail(self, why):
        print("\n".join(self.notes), file=sys.stderr)
        if self.options.keep:
            shutil.copytree(self.directory, f"{self.options.keep}/{self.directory.name}",
                            ignore=lambda top, names: [name for name in names if not (
                                Path(top, name).is_file() or Path(top, name).is_dir())])
        super().fail(why)


def one_job(options, program, seed, most):
    """Makes `most` kills, unless the job ends before."""
    chance = random.Random(f"{seed} {program.name}")
    with tempfile.TemporaryDirectory(prefix="cryo-k-", dir="/tmp") as directory:
        libraries = inside.environment(options.build, directory) if options.build else {}
        libraries["CRYO_CACHE"] = os.environ.get("CRYO_CACHE") or str(Path.home() / ".cache" / "cryo")
        words = inside.prefix(options.build, "--same-network") if options.build else []
        with distant.Nodes(3, directory, words, libraries) as nodes:
            jobs = Noted(options, directory, nodes)
            try:
                program.measure(jobs)
                (jobs.directory / "doubled").unlink(missing_ok=True)
                for note in jobs.directory.glob("acts.*"):
                    note.unlink()
                program.begin(jobs.directory / "killed")
                jobs.hold()
                jobs.start_supervised(program.options.command)
                done = disturb(jobs, program, chance, most)
                jobs.wake()
                check(jobs, program)
            except SystemExit:
                print(f"seed {seed}, {program.name}", file=sys.stderr)
                raise
            finally:
                jobs.kill()
                os.chdir("/")
    print(f"seed {seed}, {program.name}: {', '.join(done)}", flush=True)
    return len(done)


def main():
    parser = job_test.options_of_jobs(__doc__, patience=150, generations=0)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=4, help="in all")
    parser.add_argument("--soak", type=int, default=170, metavar="N", help="kills in all, with CRYO_SOAK")
    parser.add_argument("--at-most", type=int, default=6, metavar="N", help="kills of one job")
    parser.add_argument("--apart", type=float, default=1.2, help="seconds between kills, at most")
    parser.add_argument("--seconds", type=float, default=5, help="that a job takes undisturbed, at least")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="what is killed, separated by commas")
    parser.add_argument("--build", help="with Open MPI 5.0, and this build of Cryo")
    parser.add_argument("--keep", metavar="DIRECTORY", help="what a job has left that has failed is copied there")
    parser.add_argument("command", nargs="+",
                        help="a program and its arguments, as one word; or melt, peptide, hpcc (foreign_programs.py)")
    options = parser.parse_args()
    options.kinds = options.kinds or [*OF_A_PROCESS, *OF_A_NODE]
    total = options.soak if os.environ.get("CRYO_SOAK") else options.kills
    seed = int(os.environ.get("CRYO_SEED", options.seed))
    options.bin = os.path.abspath(options.bin)
    programs = [(Foreign if text in FOREIGN_STEPS else Program)(text, options) for text in options.command]
    # A node is a namespace that a process enters for good; so each job has a process of its own.
    done = 0
    while done < total:
        program = programs[seed % len(programs)]
        made = in_a_process(one_job, options, program, seed, min(options.at_most, total - done))
        if made == 0:
            sys.exit(f"seed {seed}, {program.name}: it had ended before anything was killed")
        done += made
        seed += 1
    print(f"{done} kills: the same results, nothing doubled or left")


def in_a_process(function, *arguments):
    """Its number; what it has learnt of a program is kept here."""
    program = arguments[1]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit("the test was ended"))
            processes.end_with_parent(signal.SIGTERM)
            done = function(*arguments)
            os.write(writer, json.dumps([done, program.options.command, program.expected]).encode())
            code = 0
        except Exception: # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        sys.exit(1)
    done, program.options.command, program.expected = json.loads(text)
    return done


if __name__ == "__main__":
    main()
