#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Old ids of processes and threads, and others who start tasks meanwhile or have them already."""
import errno
import os
import subprocess
import sys
import unittest

import case
from case import processes

THREADS = """
import os, threading
for _ in range(6):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
# Children that live for a moment, as many as can be, until the standard input ends; each keeps its
# id for a fifth of a second.
OTHERS = """
import os, select, sys
living = {}
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(write)
        select.select([read], [], [], 0.2)
        os._exit(0)
    os.close(read)
    living[pid] = write
    while (ended := os.waitpid(-1, os.WNOHANG)[0] if living else 0):
        os.close(living.pop(ended))
"""


@unittest.skipUnless(processes.keep_ids(), "old ids are not to be had")
class Ids(case.Case):
    def back(self):
        """A restart with the old ids; nothing where it fails."""
        restarted = self.spawn(case.command("cr_restart"), "-q", "image", stderr=subprocess.PIPE)
        restarted.stdin.write("there\n")
        restarted.stdin.flush()
        if restarted.stdout.readline() != "echo there\n":
            raise AssertionError(f"{restarted.wait(case.PATIENCE)}: {restarted.stderr.read()}")
        self.end(restarted)

    def test_beside_others_that_fork(self):
        """Whoever forked next got the id behind the program's own: that of its first thread."""
        program = self.start(THREADS)
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        others = self.spawn(sys.executable, "-S", "-c", OTHERS)
        self.assertEqual("ready\n", others.stdout.readline())
        for attempt in range(5):
            with self.subTest(attempt):
                self.back()
        others.stdin.close()
        self.assertEqual(0, others.wait(case.PATIENCE))

    @unittest.skipUnless(os.geteuid() == 0, "an id cannot be taken by choice")
    def test_id_of_a_thread_that_is_in_use(self):
        program = self.start(THREADS)
        tid = max(int(tid) for tid in os.listdir(f"/proc/{program.pid}/task"))
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        self.take(tid)
        failed = self.run_command("cr_restart", "-q", "image")
        self.assertEqual(errno.EBUSY, failed.returncode, failed.stderr)
        self.assertIn("one is in use here", failed.stderr)

    def take(self, pid):
        """A process with that id, for the rest of the test. Others may be faster."""
        def taken():
            with case.next_id(pid):
                one = self.spawn("sleep", case.PATIENCE)
            if one.pid != pid:
                self.end(one)
            return one.pid == pid
        case.wait_until(f"the id {pid}", taken)


case.main()
