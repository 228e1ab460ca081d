#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of fake ranks, parts of which are stopped by SIGSTOP while they are saved.

    test_stops.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import contextlib
import errno
import os
import signal
import subprocess
import time
from pathlib import Path

import jobs
from jobs import processes

SOAK = bool(os.environ.get("CRYO_SOAK"))


@contextlib.contextmanager
def first_in_turn():
    """Whoever looks for what is there for a moment only has a processor at once, where that is permitted."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Stops(jobs.Case):
    """SIGSTOP of anybody, for as long as it likes, while a checkpoint is made: the others go on soon."""

    SILENCE = 10 if SOAK else 1  # CRYO_DEADLINE; ranks that stand still wait twice as long for a word
    SOON = 2 * SILENCE + 15     # and what a busy machine adds; what is stopped stays so until they go on
    STEPS = 200000              # more than are done meanwhile

    def job_and_tool(self, *options, megabytes=8):
        job = self.start(3, self.STEPS, FAKE_NODES="2", FAKE_MEGABYTES=str(megabytes), FAKE_EVEN="1",
                         CRYO_DEADLINE=str(self.SILENCE))
        status = job.status()  # of now: later there are frozen copies, and what takes images
        self.ranks = status["ranks"]
        self.daemons = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in status["daemons"]}
        reference, _ = self.save(job)
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--json", *options,
                                 str(job.pid)], env=self.settings(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        return job, reference, tool

    def daemons_with(self, word):
        return [pid for pid, line in self.daemons.items() if word in line]

    def signal_imager(self, tool, number):
        """To a process that takes an image, a child of a daemon. It is there for some 50 ms."""
        with first_in_turn():
            while tool.poll() is None:
                for pid in self.daemons:
                    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                    if children:
                        return os.kill(int(children[0]), number)
                time.sleep(0.0005)
        return self.fail(f"no image was taken: {tool.communicate()}")

    @staticmethod
    def await_going(ranks, seconds, or_else=lambda: False):
        """Each of them makes steps, which takes a wait."""
        before = {rank: processes.waits_of(rank) or 0 for rank in ranks}
        jobs.wait_for(lambda: or_else() or all((processes.waits_of(rank) or 0) > before[rank] + 100
                                               for rank in ranks), "ranks that go on", seconds)

    def saved_at_last(self, job, reference):
        """A word of a stopped one may still be under way: then it says that it is called off."""
        self.save(job)
        job.kill()
        self.comes_back(reference)

    def comes_back(self, reference):
        again = self.restart(reference)
        jobs.wait_for(lambda: again.text().count("restarted at step") == 3, "ranks that come back")
        again.kill()
        self.check_store()

    def one(self, victim, rounds=5 if SOAK else 2):
        for _ in range(rounds):
            job, reference, tool = self.job_and_tool()
            time.sleep(self.random.random() * 0.1)  # a random moment of it
            stopped = victim(job, tool)
            begun = time.monotonic()
            os.kill(stopped, signal.SIGSTOP)
            self.await_going(self.ranks, self.SOON)
            # Time is what this is about, and nothing tells that nothing happens.
            time.sleep(max(0, begun + 3 * self.SILENCE - time.monotonic()))
            self.await_going(self.ranks, self.SOON)
            os.kill(stopped, signal.SIGCONT)
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
            self.assertTrue(tool.returncode == 0 or errors.strip())
            self.await_going(self.ranks, self.SOON)
            self.saved_at_last(job, reference)

    def test_first_daemon(self):
        self.one(lambda *_: self.daemons_with(b"--root")[0])

    def test_command_of_a_stopped_daemon(self):
        """It does not wait for ever, and the job can be saved when the daemon goes on."""
        job, reference, tool = self.job_and_tool()
        tool.communicate(timeout=jobs.PATIENCE)
        root = self.daemons_with(b"--root")[0]
        os.kill(root, signal.SIGSTOP)
        for words in ((), ("--status",), ("--nowait",)):
            done = self.tool("ompi-checkpoint", *words, job.pid, code=errno.ETIMEDOUT,
                             CRYO_DEADLINE="1")
            self.assertIn("said nothing for 3 s: it is stopped", done.stderr)
        self.await_going(self.ranks, self.SOON)
        os.kill(root, signal.SIGCONT)
        # What has been asked for in vain may be done first.
        jobs.wait_for(lambda: self.tool("ompi-checkpoint", job.pid, code=None).returncode != errno.EBUSY,
                      "the end of a checkpoint")
        self.saved_at_last(job, reference)

    def test_node_daemon(self):
        self.one(lambda *_: self.random.choice(self.daemons_with(b"--node")))

    def test_command(self):
        self.one(lambda _, tool: tool.pid)

    def test_launcher(self):
        self.one(lambda job, _: job.pid)

    def test_rank(self):
        """The others wait for it, as without a checkpoint; then all goes on."""
        job, reference, tool = self.job_and_tool()
        rank = self.random.choice(self.ranks)
        os.kill(rank, signal.SIGSTOP)
        time.sleep(3 * self.SILENCE)  # see above
        self.assertIsNone(job.process.poll())
        os.kill(rank, signal.SIGCONT)
        tool.communicate(timeout=jobs.PATIENCE)
        self.await_going(self.ranks, self.SOON)
        self.saved_at_last(job, reference)

    def test_imager(self):
        """Of ranks that stay where they are until the snapshot is there."""
        job, reference, tool = self.job_and_tool("--snapshot=stop", megabytes=64)
        self.signal_imager(tool, signal.SIGSTOP)
        self.await_going(self.ranks, self.SOON)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertIn("was stopped (SIGSTOP)", errors)
        self.saved_at_last(job, reference)

    def test_death_of_an_imager(self):
        """The checkpoint fails, and says so; the ranks go on."""
        job, reference, tool = self.job_and_tool("--snapshot=stop", megabytes=64)
        self.signal_imager(tool, signal.SIGKILL)
        self.await_going(self.ranks, self.SOON)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        self.assertNotEqual(0, tool.returncode)
        self.assertTrue(errors.strip())
        self.saved_at_last(job, reference)

    def test_last_snapshot(self):
        """With --term: who has gone on meanwhile is not ended, and whoever asked for it is told."""
        job, reference, tool = self.job_and_tool("--term")
        root = self.daemons_with(b"--root")[0]
        time.sleep(self.random.random() * 0.1)  # a random moment of it
        os.kill(root, signal.SIGSTOP)
        self.await_going(self.ranks, self.SOON, lambda: job.process.poll() is not None)
        os.kill(root, signal.SIGCONT)
        _, errors = tool.communicate(timeout=jobs.PATIENCE)
        if tool.returncode == 0:
            job.end(None)
        else:
            self.assertTrue(errors.strip())
            self.await_going(self.ranks, self.SOON)
            self.save(job)
        job.kill()
        self.comes_back(reference)


class Ends(jobs.Case):
    def test_of_a_script(self):
        """The ranks that it has started since are not those that were to end."""
        script = Path(self.scratch, "script")
        script.write_text("#!/bin/sh\ntrap 'kill $first' TERM\n\"$@\" & first=$!\nwait\nwait\ntrap - TERM\n"
                          "exec \"$@\"\n")
        script.chmod(0o755)
        job = jobs.Job(self, [jobs.OPTIONS.bin + "/cr_run", "--mpi", script, jobs.MPIRUN, "-n", "2",
                              jobs.OPTIONS.rank, "5000", self.scratch], self.settings(FAKE_HELD="1"))
        jobs.wait_for(lambda: len(job.status()["ranks"]) == 2, "the ranks")
        first = set(job.status()["ranks"])
        self.save(job, "--term")
        jobs.wait_for(lambda: len(set(job.status()["ranks"]) - first) == 2, "the next ranks")
        jobs.wait_for(lambda: not first & set(job.status()["ranks"]), "the end of the first ones")
        time.sleep(3) # longer than these had, if they had not ended
        self.check_result(job.end(), 2, 5000)


if __name__ == "__main__":
    jobs.main()
