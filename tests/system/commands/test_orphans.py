#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Members of a session or group whose parent had ended: they are init's children, then and after."""
import os
import signal
import unittest

import case
from case import processes

# The grandchild of the first process, whose parent ends at once. Upon SIGUSR1 it tells its parent,
# session and group.
SETUP = """
import ctypes, os, signal, sys
if (child := os.fork()) == 0:
    mine = os.getpid()
    if os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        while os.getppid() == mine:
            os.sched_yield()
        {later}
        os.close(1)
        with open("orphan", "w") as file:
            print(os.getpid(), file=file)
        while signal.sigwait([signal.SIGUSR1]):
            with open("told", "a") as told:
                print(os.getppid(), os.getsid(0), os.getpgrp(), file=told, flush=True)
    os._exit(0)
os.waitpid(child, 0)
while not (os.path.exists("orphan") and open("orphan").read().endswith("\\n")):
    os.sched_yield()
"""
DIES_WITH_ITS_PARENT = "ctypes.CDLL(None).prctl(1, signal.SIGTERM)"


@unittest.skipUnless(processes.keep_ids(), "old ids are not to be had")
class Orphans(case.Case):
    def begin(self, later="pass"):
        """The first process, and the orphan's pid."""
        program = self.start(SETUP.format(later=later))
        with open(self.path("orphan"), encoding="ascii") as file:
            orphan = int(file.read())
        self.addCleanup(case.kill, orphan)
        before = self.told(orphan)
        if before[0] != 1:
            self.skipTest("orphans have another parent than init here")
        return program, orphan, before

    def told(self, orphan):
        """Parent, session and group of it, as it sees them."""
        def lines():
            if not os.path.exists(self.path("told")):
                return []
            with open(self.path("told"), encoding="ascii") as file:
                return file.read().split("\n")[:-1]
        before = len(lines())
        # One that has ended takes signals until init has collected it.
        self.assertTrue(processes.exists(orphan), "the orphan has ended")
        os.kill(orphan, signal.SIGUSR1)
        case.wait_until("the orphan's answer", lambda: len(lines()) > before,
                        describe=lambda: processes.describe(orphan))
        return [int(word) for word in lines()[-1].split()]

    def again(self, program, orphan, scope, *options):
        """Saved, ended, and brought back with the old ids: its cr_restart."""
        self.save("--nosync", "--kill", scope, "-f", "image", program.pid)
        self.end(program)
        case.wait_until("the orphan's end", lambda: case.state(orphan) == "g")
        restarted = self.spawn(case.command("cr_restart"), "-q", *options, "image")
        self.assert_alive(restarted)
        return restarted

    def test_session_of_cr_restart(self):
        program, orphan, _ = self.begin()
        restarted = self.again(program, orphan, "--sid", "--no-restore-sid")
        self.assertEqual([1, restarted.pid, restarted.pid], self.told(orphan))

    def test_session_that_is_made_again(self):
        """Only its leader can make a member of it."""
        program, orphan, before = self.begin()
        self.assertEqual(program.pid, before[1])
        self.again(program, orphan, "--sid", "--restore-sid")
        self.assertEqual(before, self.told(orphan))

    def test_group_that_is_made_again(self):
        program, orphan, before = self.begin()
        self.assertEqual(program.pid, before[2])
        restarted = self.again(program, orphan, "--pgid", "--no-restore-sid", "--restore-pgid")
        self.assertEqual([1, restarted.pid, before[2]], self.told(orphan))

    def test_it_outlives_the_others(self):
        program, orphan, _ = self.begin()
        restarted = self.again(program, orphan, "--sid")
        restarted.stdin.close()
        case.wait_until("the end of cr_restart", lambda: restarted.poll() is not None,
                        describe=lambda: "\n".join(map(processes.describe,
                                                       (restarted.pid, orphan))))
        self.assertEqual(0, restarted.returncode)
        self.assertEqual(1, self.told(orphan)[0])

    def test_signal_when_its_parent_ends(self):
        """It would come when the one ends that was its parent for a moment: cr_restart stays it."""
        program, orphan, _ = self.begin(DIES_WITH_ITS_PARENT)
        restarted = self.again(program, orphan, "--sid", "--restore-sid")
        self.assertEqual([restarted.pid, program.pid, program.pid], self.told(orphan))
        self.end(restarted)
        case.wait_until("the orphan's end", lambda: case.state(orphan) in "Zg")


case.main()
