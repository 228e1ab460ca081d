# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks for tests: started, saved, brought back, killed.

    class Mine(jobs.Case):
        def test_it(self):
            job = self.start(2, 1000)
            reference, seq = self.save(job)
            job.kill()
            self.check_result(self.restart(reference).end(), 2, 1000)
    jobs.main()                             # --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position
from waiting import PATIENCE, wait_until  # noqa: E402  pylint: disable=wrong-import-position
MPIRUN = HERE / "fake_mpirun"
OPTIONS = None


def wait_for(condition, what, patience=PATIENCE):
    wait_until(what, condition, patience)


def is_alive(pid):
    return processes.state(pid) not in (None, "Z")


def variable(job, name):
    """Of the launcher's environment. While a program is executed there is none, and a script is
    executed twice."""
    def values():
        environment = Path(f"/proc/{job.pid}/environ").read_bytes().decode().split("\0")
        return [one.split("=", 1)[1] for one in environment if one.startswith(name + "=")]
    found = []
    wait_for(lambda: found.extend(values()) or found, f"{name} in the launcher's environment")
    return found[0]


def expected(rank, steps):
    """What an undisturbed rank prints."""
    total = rank
    for step in range(steps):
        total = (total * 6364136223846793005 + step) % 2**64
    return f"rank {rank}: {steps} steps, {total}"


class Job:
    """A running job and what is known of it."""

    def __init__(self, case, words, settings, limit=None):
        self.case = case
        self.output = tempfile.NamedTemporaryFile(dir=case.scratch, delete=False)
        self.process = subprocess.Popen(words, env=settings, stdin=subprocess.DEVNULL,
                                        stdout=self.output, stderr=self.output,
                                        cwd=case.scratch, start_new_session=True,
                                        preexec_fn=limit, restore_signals=limit is None,
                                        **case.identity)
        self.pid = self.process.pid
        case.addCleanup(self.kill)

    def text(self):
        return Path(self.output.name).read_text()

    def status(self):
        """The pids of daemons and ranks, from /proc: those that belong to this job. What they have forked to
        take an image, or to have one taken of it, has their command line, and is none: it may be gone at once."""
        def is_one(pid, found):
            parent = processes.parent(pid)
            return parent is not None and found.get(parent) != found[pid]
        return {kind: [pid for pid in found if is_one(pid, found)] for kind, found in self.look().items()}

    def look(self):
        """Their command lines, by their pids, with those of what they have forked."""
        found = {"daemons": {}, "ranks": {}}
        mark = f"CRYO_JOB={self.pid}-".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or not is_alive(entry.name):
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            name = os.path.basename(words[0])
            if name == b"mpi-daemon" and (mark in environment or
                                          words[1:3] == [b"--root", str(self.pid).encode()]):
                found["daemons"][int(entry.name)] = words
            elif name == b"fake_rank" and mark in environment:
                found["ranks"][int(entry.name)] = words
        return found

    def everything(self):
        found = self.look()
        children = [self.pid]
        for parent in children:
            try:
                text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
                children += [int(child) for child in text.split()]
            except OSError:
                pass
        return children + [pid for pid in [*found["daemons"], *found["ranks"]] if pid not in children]

    def kill(self):
        """All of it at once, as a power cut would."""
        pids = self.everything()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        wait_for(lambda: not any(is_alive(pid) for pid in pids), "the end of the job")

    def end(self, code=0):
        Path(self.case.scratch, "end").touch()
        try:
            got = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.case.fail(f"the job hangs:\n{self.text()}")
        if code is not None:
            self.case.assertEqual(got, code, self.text())
        return self.text()


class Case(unittest.TestCase):
    identity = {} # whose jobs and commands they are, as subprocess takes it

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.random = random.Random(int(os.environ.get("CRYO_SEED", "1")))

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-co-", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.runtime = os.path.join(self.scratch, "run")
        self.store = os.path.join(self.scratch, "snapshots")

    def settings(self, **more):
        settings = {name: value for name, value in os.environ.items()
                    if not name.startswith(("CRYO_", "OMPI_", "PMIX_")) or
                    name == "CRYO_DAEMON_LOG"}
        settings.update(CRYO_RUNTIME_DIR=self.runtime, CRYO_LISTEN="127.0.0.1",
                        OMPI_MCA_snapc_base_global_snapshot_dir=self.store, **more)
        return settings

    def start(self, ranks, steps, limit=None, **more):
        for old in [*Path(self.scratch).glob("started.*"), Path(self.scratch, "end")]:
            old.unlink(missing_ok=True)
        more.setdefault("FAKE_HELD", "1")
        job = Job(self, [OPTIONS.bin + "/cr_run", "--mpi", MPIRUN, "-n", str(ranks), OPTIONS.rank,
                         str(steps), self.scratch], self.settings(**more), limit)
        wait_for(lambda: len(list(Path(self.scratch).glob("started.*"))) == ranks or
                 job.process.poll() is not None, "the ranks")
        return job

    def tool(self, name, *arguments, code=0, **more):
        done = subprocess.run([f"{OPTIONS.bin}/{name}", *map(str, arguments)], text=True,
                              capture_output=True, check=False, env=self.settings(**more),
                              cwd=self.scratch, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                              **self.identity)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def save(self, job, *arguments, **more):
        """The snapshot's reference and number; ranks may be on their way in still."""
        done = self.tool("ompi-checkpoint", *arguments, job.pid, code=None, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + job.text())
        found = re.search(r"^Snapshot Ref\.: +(\d+) (\S+)$", done.stdout, re.M)
        self.assertTrue(found, done.stdout)
        return found[2], int(found[1])

    def restart(self, reference, *arguments, **more):
        return Job(self, [OPTIONS.bin + "/ompi-restart", "--mpirun", MPIRUN, *arguments, reference],
                   self.settings(**more))

    def check_result(self, text, ranks, steps):
        for rank in range(ranks):
            self.assertIn(expected(rank, steps) + "\n", text)

    def check_store(self):
        """Nothing but whole snapshots."""
        for reference in Path(self.store).glob("*.ckpt"):
            left = [entry.name for entry in reference.iterdir() if entry.name.startswith(".")]
            self.assertEqual(left, [])


def main(*options):
    """OPTIONS from the command line: where the commands and the ranks are, and further ones."""
    global OPTIONS  # pylint: disable=global-statement
    parser = argparse.ArgumentParser()
    for name in ("bin", "rank", *options):
        parser.add_argument(f"--{name}")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
