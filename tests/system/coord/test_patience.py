#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job's daemons that never come to an end, or do not start: how long commands and ranks wait.

    test_patience.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import contextlib
import errno
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

import jobs
import test_channel


class Command(jobs.Case):
    """The job's first daemon, perhaps of another user, says for ever that it works."""

    def setUp(self):
        super().setUp()
        job = f"{os.getpid()}-hung"
        directory = Path(self.runtime, job)
        os.mkdir(self.runtime, 0o700)
        directory.mkdir(0o700)
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(str(directory / ".root"))
        self.listener.listen()
        self.listener.settimeout(jobs.PATIENCE)
        self.launcher = subprocess.Popen(["sleep", "600"], env=self.settings(
            CRYO_JOB=f"{job}:{'0' * 64}:1:127.0.0.1"))
        self.addCleanup(self.launcher.wait)
        self.addCleanup(self.launcher.kill)

    def begin(self, message):
        """A command that hears this again and again, as long as it listens; and an event that ends
        the checkpoint well."""
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--time", "1",
                                 str(self.launcher.pid)], env=self.settings(CRYO_DEADLINE="1"),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        connection, _ = self.listener.accept()
        over = threading.Event()
        done = threading.Event()
        def talk():
            with connection, contextlib.suppress(OSError):
                while not over.wait(0.2):
                    connection.sendall(test_channel.frame({"type": "end", "ok": True}
                                                          if done.is_set() else message))
        speaker = threading.Thread(target=talk)
        speaker.start()
        self.addCleanup(speaker.join)
        self.addCleanup(over.set)
        return tool, done

    def test_work_without_end(self):
        """Commands of a job that writes images, or that were stopped meanwhile, wait for longer."""
        writes = self.begin({"type": "images", "done": 0, "cut": 1, "of": 1})
        stopped = self.begin({"type": "working"})
        os.kill(stopped[0].pid, signal.SIGSTOP)
        tools = [self.begin(message) for message in ({"type": "working"},
                                                     {"type": "state", "state": "running"})]
        for tool, _ in tools:
            _, errors = tool.communicate(timeout=2 * jobs.PATIENCE)
            self.assertEqual(errno.ETIMEDOUT, tool.returncode, errors)
            self.assertIn("says that it works, and has come to no end for 40 s", errors)
        os.kill(stopped[0].pid, signal.SIGCONT)
        for tool, done in (writes, stopped):
            done.set()
            _, errors = tool.communicate(timeout=jobs.PATIENCE)
            self.assertEqual(0, tool.returncode, errors)


class Rank(jobs.Case):
    """The daemon that a rank starts is stopped before it listens."""

    def begin(self, name):
        """A rank that waits for a daemon that has stopped itself, and fails when it goes on; and where
        that daemon's pid is."""
        daemon, pid = Path(self.scratch, name), Path(self.scratch, name + ".pid")
        daemon.write_text(f"#!/bin/sh\necho $$ > {pid}\nkill -STOP $$\nexit 1\n")
        daemon.chmod(0o700)
        variables = self.settings(CRYO_JOB=f"{os.getpid()}-{name}:{'0' * 64}:1:127.0.0.1",
                                  CRYO_NODE="here", CRYO_DAEMON=str(daemon),
                                  OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1")
        rank = subprocess.Popen([jobs.OPTIONS.rank, "1", self.scratch], env=variables, text=True,
                                stdout=subprocess.PIPE)
        self.addCleanup(rank.stdout.close)
        self.addCleanup(rank.wait)
        self.addCleanup(self.end, pid)
        self.addCleanup(rank.kill)
        return rank, pid

    @staticmethod
    def state(pid):
        text = pid.read_text().strip() if pid.exists() else ""
        return jobs.processes.state(text) if text else None

    def end(self, pid):
        if self.state(pid) not in (None, "Z"):
            os.kill(int(pid.read_text()), signal.SIGKILL)

    def test_daemon_that_is_stopped(self):
        both, of_both = self.begin("both")
        jobs.wait_for(lambda: self.state(of_both) == "T", "the daemon that stops itself")
        os.kill(both.pid, signal.SIGSTOP) # as a scheduler does with a whole job
        rank, stopped = self.begin("stopped")
        said, _ = rank.communicate(timeout=2 * jobs.PATIENCE)
        left = self.state(stopped) not in (None, "Z")
        self.assertEqual(0, rank.returncode)
        self.assertIn(f"rank 0: alone: {self.scratch}/stopped: has not started for 45 s", said)
        self.assertFalse(left)
        self.assertIn("rank 0: 1 steps", said)

        os.kill(both.pid, signal.SIGCONT)
        jobs.wait_for(lambda: jobs.processes.state(both.pid) == "S", "the rank that waits again")
        self.assertEqual(self.state(of_both), "T")
        os.kill(int(of_both.read_text()), signal.SIGCONT)
        said, _ = both.communicate(timeout=jobs.PATIENCE)
        self.assertIn("could not start, or could not reach the job's first node", said)


if __name__ == "__main__":
    jobs.main()
