#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job's first daemon that never comes to an end: how long commands wait for it.

    test_patience.py --bin DIRECTORY --rank FAKE_RANK [unittest arguments]
"""
import contextlib
import errno
import os
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
        """A command that hears this again and again, as long as it listens."""
        tool = subprocess.Popen([jobs.OPTIONS.bin + "/ompi-checkpoint", "--time", "1",
                                 str(self.launcher.pid)], env=self.settings(CRYO_DEADLINE="1"),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(tool.communicate)
        self.addCleanup(tool.kill)
        connection, _ = self.listener.accept()
        over = threading.Event()
        def talk():
            with connection, contextlib.suppress(OSError):
                while not over.wait(0.2):
                    connection.sendall(test_channel.frame(message))
        speaker = threading.Thread(target=talk)
        speaker.start()
        self.addCleanup(speaker.join)
        self.addCleanup(over.set)
        return tool

    def test_work_without_end(self):
        tools = [self.begin(message) for message in ({"type": "working"},
                                                     {"type": "state", "state": "running"})]
        for tool in tools:
            _, errors = tool.communicate(timeout=2 * jobs.PATIENCE)
            self.assertEqual(errno.ETIMEDOUT, tool.returncode, errors)
            self.assertIn("says that it works, and has come to no end for 60 s", errors)


if __name__ == "__main__":
    jobs.main()
