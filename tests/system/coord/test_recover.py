#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs under cr_run --recover: what ends, and how the job comes back.

    test_recover.py --bin DIRECTORY --rank FAKE_RANK [--open-mpi MPIRUN]
"""
import ctypes
import json
import os
import signal
import subprocess
from pathlib import Path

import jobs
import processes
from jobs import wait_for


PTRACE_SEIZE, WALL = 0x4206, 0x40000000
TRANSFER = '[[fault]]\nrecover = "transfer"\nmemory = "1GiB"\n'

# Ends with status 3 when it is told to, a while before its ranks, which the supervisor gives five seconds.
SLOW_LAUNCHER = """#!/usr/bin/env python3
import os, signal, sys, time
ranks = os.posix_spawn("{mpirun}", ["{mpirun}", *sys.argv[1:]], os.environ)
while not os.path.exists(sys.argv[-1] + "/end"):
    time.sleep(0.02)
if os.fork() == 0:
    time.sleep(0.3)
    os.kill(ranks, signal.SIGTERM)
os._exit(3)
"""


class Supervising(jobs.Case):
    """A launcher of the tests' own, whose ranks live on the nodes that FAKE_NODES says."""

    def setUp(self):
        super().setUp()
        self.launcher = os.path.join(self.scratch, "mpirun")
        os.symlink(jobs.MPIRUN, self.launcher)
        self.kept = Path(self.scratch, "kept")
        self.more = {"CRYO_MPIRUN": str(jobs.MPIRUN), "FAKE_HELD": "1"}

    def supervise(self, ranks, steps=20_000, interval="100ms", policy="", options=(),
                  before=()):
        file = Path(self.scratch, "policy.toml")
        file.write_text(policy, encoding="utf-8")
        words = [jobs.OPTIONS.bin + "/cr_run", f"--recover={file}", "--interval", interval, "--into",
                 str(self.kept), *before, self.launcher, *options, "-n", str(ranks), jobs.OPTIONS.rank,
                 str(steps), self.scratch]
        job = jobs.Job(self, words, self.settings(**self.more))
        self.addCleanup(self.end_rest, job)
        wait_for(lambda: len(self.ranks()) == ranks or job.process.poll() is not None, "the ranks")
        return job

    def marked(self, *names):
        """Processes with these names that belong to this test."""
        mark = f"CRYO_RUNTIME_DIR={self.runtime}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or not jobs.is_alive(entry.name):
                continue
            try:
                name = os.path.basename((entry / "cmdline").read_bytes().split(b"\0")[0]).decode(errors="replace")
                if (not names or name in names) and mark in (entry / "environ").read_bytes():
                    yield int(entry.name)
            except OSError:
                continue

    def end_rest(self, job):
        job.kill()
        for pid in list(self.marked()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not list(self.marked()), "the end of all")

    def ranks(self):
        """Without the copies of them from which images are written: their parents are ranks."""
        all_of_them = list(self.marked("fake_rank"))
        return [pid for pid in all_of_them if processes.parent(pid) not in all_of_them]

    def snapshots(self):
        log = self.kept / "keeper.log"
        return log.read_text().count("on the disk") if log.exists() else 0

    def await_snapshot(self, job):
        seen = self.snapshots()
        wait_for(lambda: self.snapshots() > seen or job.process.poll() is not None, "a snapshot")
        self.assertIsNone(job.process.poll(), job.text())

    def await_recovery(self, job, number):
        wait_for(lambda: job.text().count(" is back from ") >= number or
                 job.process.poll() is not None, "the recovery")
        self.assertEqual(job.text().count(" is back from "), number, job.text())

    def images(self, rank="*"):
        """Of the first snapshot."""
        return list((self.kept / "context.ckpt" / "0").glob(f"opal_snapshot_{rank}.ckpt/cryo_context.*"))

    def hold(self, job):
        """How many bytes are held of it, when it is made."""
        keeper = []
        wait_for(lambda: keeper.extend(self.marked("keeper")) or keeper, "the keeper")
        os.kill(keeper[0], signal.SIGUSR1)
        said = {}

        def is_held():
            self.assertIsNone(job.process.poll(), job.text())
            shown = self.tool("cr_status", "--json", job.pid, code=None).stdout
            said.update(json.loads(shown) if shown else {})
            return said.get("standby")
        wait_for(is_held, "the image in memory")
        self.assertEqual(said["standby"], str(self.kept / "context.ckpt" / "0"))
        return said["standby_bytes"]

    def end_well(self, job, ranks, steps=20_000):
        self.check_result(job.end(), ranks, steps)
        wait_for(lambda: not list(self.marked()), "the end of daemon and keeper")


class Supervised(Supervising):
    def test_killed_rank(self):
        job = self.supervise(3)
        for recovery in range(2):
            self.await_snapshot(job)
            os.kill(self.ranks()[recovery], signal.SIGKILL)
            self.await_recovery(job, recovery + 1)
        self.assertIn("a rank was killed by SIGKILL", job.text())
        self.assertRegex(job.text(), r"the job of process \d+ is back from \S+/kept/context.ckpt/\d+ ")
        for _ in range(2):
            self.await_snapshot(job)
        wait_for(lambda: len([one for one in (self.kept / "context.ckpt").iterdir()
                              if one.name.isdigit()]) <= 2 or job.process.poll() is not None,
                 "the end of the snapshots of earlier launchers")
        self.end_well(job, 3)

    def test_transfer(self):
        """The newest snapshot is in memory when a rank is killed, and nobody holds it at the end."""
        job = self.supervise(2, interval="1h", policy=TRANSFER)
        self.assertEqual(self.hold(job), sum(map(os.path.getsize, self.images())))
        self.assertNotIn("but for what is read", job.text())
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertIn("; its image was held in memory", job.text())
        self.end_well(job, 2)

    def test_killed_launcher(self):
        job = self.supervise(2)
        self.await_snapshot(job)
        launcher = next(self.marked("python3"), None)
        self.assertIsNotNone(launcher)
        os.kill(launcher, signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_launcher_that_has_lost_what_it_had_started(self):
        """As Open MPI's when its orted of another node is killed."""
        self.more["FAKE_STATUS"] = "205"
        job = self.supervise(2)
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_status_of_a_rank_that_misses_another(self):
        """As that of an MPI library which gives up: what was killed before is the fault, not that."""
        self.more["FAKE_STATUS"] = "14"
        job = self.supervise(2)
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_launcher_that_ends_well_without_its_ranks(self):
        """As Open MPI 5.0's when its prted of another node is killed."""
        self.more["FAKE_STATUS"] = "0"
        job = self.supervise(2)
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertIn("ended with status 0, but not all ranks have come to their end", job.text())
        self.end_well(job, 2)

    def test_ends_that_the_job_has_chosen(self):
        """Others are killed for it, and it is no fault all the same."""
        for how in "by_itself", "given_up":
            self.more["FAKE_ENDS"] = how
            self.kept = Path(self.scratch, how)
            job = self.supervise(3, steps=10_000_000)
            self.await_snapshot(job)
            os.kill(self.ranks()[1], signal.SIGUSR1)
            self.assertNotIn("the launcher (", job.end(14))
            wait_for(lambda: not list(self.marked()), "the end of daemon and keeper")

    def test_saved_and_ended(self):
        """The user wants it to end, unfinished, and MPICH's launcher ends with 0 then."""
        self.more["FAKE_AT_TERM"] = "zero"
        job = self.supervise(2, steps=10_000_000, interval="1h")
        self.tool("ompi-checkpoint", "--term", "--where", self.kept, "--name", "context.ckpt", job.pid)
        self.assertNotIn("the launcher (", job.end(0))

    def test_killed_daemon_and_rank(self):
        """No rank was elsewhere, so that none is left is known without the daemon."""
        job = self.supervise(2)
        self.await_snapshot(job)
        for pid in self.marked("mpi-daemon"):
            os.kill(pid, signal.SIGKILL)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_killed_daemon_of_a_recovery(self):
        """Nobody tells that the job is back: it gets its signals all the same, and may end well."""
        launcher = Path(self.scratch, "again")
        launcher.write_text(f"""#!/bin/sh
trap 'touch {self.scratch}/got; exit 0' USR1
touch {self.scratch}/up
while :; do sleep 0.05; done
""", encoding="utf-8")
        launcher.chmod(0o700)
        self.more["CRYO_MPIRUN"] = str(launcher)
        job = self.supervise(2)
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        wait_for(Path(self.scratch, "up").exists, "the second launcher")
        wait_for(lambda: len(list(self.marked("mpi-daemon"))) == 1, "the end of the first daemon")
        os.kill(job.pid, signal.SIGUSR1)
        for pid in self.marked("mpi-daemon"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(job.end(0).count("the restart from"), 0)
        self.assertTrue(Path(self.scratch, "got").exists())

    def test_rank_whose_end_takes_long(self):
        """A tracer keeps it: that the supervisor waits, and for what, is said."""
        job = self.supervise(2)
        self.await_snapshot(job)
        kept = self.ranks()[0]
        libc = ctypes.CDLL(None, use_errno=True)
        self.assertEqual(libc.ptrace(PTRACE_SEIZE, kept, None, None), 0, ctypes.get_errno())
        os.kill(next(self.marked("python3")), signal.SIGKILL)
        wait_for(lambda: f"waits for the end of process {kept}, which was killed" in job.text(),
                 "the message")
        self.assertNotIn(" is back from ", job.text())
        while os.WIFSTOPPED(os.waitpid(kept, WALL)[1]): # by a signal that came before
            pass
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_before_any_snapshot(self):
        job = self.supervise(2, interval="1h")
        os.kill(self.ranks()[0], signal.SIGKILL)
        wait_for(lambda: "a rank was killed" in job.text(), "the fault")
        self.end_well(job, 2)

    def test_save_by_hand_and_crash_loop(self):
        """ompi-checkpoint takes the supervisor's process id; no progress is the end."""
        job = self.supervise(2, interval="1h", policy="[[fault]]\nlimit = 1\n")
        for _ in range(2):
            self.tool("ompi-checkpoint", "--where", self.kept, "--name", "context.ckpt", job.pid)
        for recovery in range(2):
            os.kill(self.ranks()[0], signal.SIGKILL)
            self.await_recovery(job, recovery + 1)
        self.assertIn("context.ckpt/1, which is abandoned", job.text())
        self.assertTrue((self.kept / "context.ckpt" / "abandoned.1").is_dir())
        os.kill(self.ranks()[0], signal.SIGKILL)
        text = job.end(137)
        self.assertIn("there is no older image", text)

    def test_status_of_its_own_while_ranks_are_ending(self):
        """A launcher may end before those that it has killed: its exit status counts all the same."""
        Path(self.launcher).unlink()
        Path(self.launcher).write_text(SLOW_LAUNCHER.format(mpirun=jobs.MPIRUN), encoding="utf-8")
        Path(self.launcher).chmod(0o700)
        job = self.supervise(2, steps=10_000_000, interval="1h")
        Path(self.scratch, "end").touch()
        text = job.end(3)
        self.assertNotIn("the launcher (", text)

    def test_terminated(self):
        job = self.supervise(2, steps=10_000_000)
        self.await_snapshot(job)
        os.kill(job.pid, signal.SIGTERM)
        self.assertNotIn("back", job.end(143))

    def test_refused(self):
        for words, why in ((["--mpi", "sh", "-c", "true"], "only if cr_run starts its launcher"),
                           (["srun", "true"], "jobs under srun")):
            done = self.tool("cr_run", "--recover", *words, code=255)
            self.assertIn(why, done.stderr)


class Elsewhere(Supervising):
    def test_node_that_is_lost(self):
        """With its daemon its ranks end."""
        self.more.update(FAKE_NODES="2", CRYO_NODE="node0")
        job = self.supervise(2)
        self.await_snapshot(job)
        lost = [pid for pid in self.marked("mpi-daemon")
                if b"CRYO_NODE=node1" in Path(f"/proc/{pid}/environ").read_bytes()]
        self.assertEqual(len(lost), 1)
        os.kill(lost[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertIn("without node node1", job.text())
        self.end_well(job, 2)

    def test_launcher_in_a_job_of_slurm(self):
        """Its daemons need not wait for the step that the lost node has left in Slurm's books."""
        self.more.update(SLURM_JOB_ID="412")
        job = self.supervise(2)
        self.assertEqual([], self.overlapping())
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertNotEqual([], self.overlapping())
        self.end_well(job, 2)

    def overlapping(self):
        """Launchers whose steps share processors."""
        return [pid for pid in self.marked("python3")
                if b"SLURM_OVERLAP=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]

    def test_transfer(self):
        """Of the ranks of this node: for the others nothing is held, and that is said."""
        self.more.update(FAKE_NODES="2", CRYO_NODE="node0")
        job = self.supervise(2, interval="1h", policy=TRANSFER)
        self.assertEqual(self.hold(job), sum(map(os.path.getsize, self.images("0"))))
        self.assertLess(0, sum(map(os.path.getsize, self.images("1"))))
        wait_for(lambda: "0 is held in memory, but for what is read on node1" in job.text(), "the message")
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 2)

    def test_other_node_that_is_there(self):
        self.more.update(FAKE_NODES="2", CRYO_NODE="node0")
        job = self.supervise(3)
        self.await_snapshot(job)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, 3)

    def test_what_is_no_rank_on_another_node(self):
        """A second MPI job under the same daemons: its processes end with the daemon of their node."""
        self.more.update(FAKE_NODES="2", CRYO_NODE="node0")
        job = self.supervise(2)
        self.await_snapshot(job)
        there = next(pid for pid in self.ranks()
                     if b"CRYO_NODE=node1" in Path(f"/proc/{pid}/environ").read_bytes())
        settings = dict(one.split("=", 1) for one in
                        Path(f"/proc/{there}/environ").read_text().split("\0") if "=" in one)
        settings.update(OMPI_COMM_WORLD_RANK="0", PMIX_NAMESPACE="another")
        stray = subprocess.Popen([jobs.OPTIONS.rank, "10000000", self.scratch], env=settings,
                                 stdout=subprocess.DEVNULL)
        self.addCleanup(stray.wait)
        self.addCleanup(stray.kill)
        wait_for(lambda: "two MPI jobs run under it" in job.text(), "the second job")
        ranks = [pid for pid in self.ranks() if pid != stray.pid]
        os.kill(ranks[0], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.assertIsNotNone(stray.wait(jobs.PATIENCE))
        self.end_well(job, 2)


class OpenMpi(Supervising):
    def setUp(self):
        super().setUp()
        self.launcher = jobs.OPTIONS.open_mpi
        self.more = {"TMPDIR": self.scratch, "FAKE_HELD": "1", "OMPI_MCA_rtc": "^hwloc", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_oob_tcp_if_include": "lo"}

    def test_options_of_the_launcher(self):
        """More ranks than processors come back as they were started."""
        ranks = os.cpu_count() + 1
        job = self.supervise(ranks, options=["--oversubscribe", "--bind-to", "none"])
        self.await_snapshot(job)
        os.kill(self.ranks()[-1], signal.SIGKILL)
        self.await_recovery(job, 1)
        self.end_well(job, ranks)

    def test_status_of_its_own(self):
        done = self.tool("cr_run", "--recover", "--into", self.kept, self.launcher, "-n", "1", "sh",
                         "-c", "exit 3", code=3, **self.more)
        self.assertNotIn("cr_run:", done.stderr)


if __name__ == "__main__":
    jobs.main("open-mpi")
