#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Relations of a tree's processes that change while they are being asked for a checkpoint."""
import os
import unittest

import case
from case import processes

# A child that holds the checkpoint off until it has been asked, and then changes something: the
# others were looked for before.
SETUP = """
import ctypes, os, signal
cr = ctypes.CDLL({library!r})
if (child := os.fork()) == 0:
    os.close(1)
    client = cr.cr_init()
    cr.cr_enter_cs(client)
    open("inside", "w").close()
    while cr.cr_status() == 0:
        os.sched_yield()
    {change}
    cr.cr_leave_cs(client)
    while True:
        signal.pause()
while not os.path.exists("inside"):
    os.sched_yield()
open("child", "w").write(str(child))
"""


@unittest.skipUnless(processes.keep_ids(), "old ids are not to be had")
class Relations(case.Case):
    def relations_after(self, change, options=("--no-restore-sid",)):
        """Of the child, after a restart with the old ids: its pid, parent, group, session."""
        library = os.path.join(os.path.dirname(case.BIN), "lib", "libcr.so.0")
        program = self.start(SETUP.format(library=library, change=change))
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        with open(self.path("child"), encoding="ascii") as file:
            child = int(file.read())
        self.addCleanup(case.kill, child)  # it may be in another group or session
        restarted = self.spawn(case.command("cr_restart"), "-q", *options, "image")
        self.assert_alive(restarted)
        with open(f"/proc/{child}/stat", encoding="ascii") as stat:
            parent, group, session = stat.read().rsplit(")", 1)[1].split()[1:4]
        return child, program.pid, restarted.pid, (int(parent), int(group), int(session))

    def test_none(self):
        _, root, restart, now = self.relations_after("pass")
        self.assertEqual((root, restart, restart), now)

    def test_of_a_daemon(self):
        """A daemon has no terminal, and is in no group and session of others."""
        child, root, _, now = self.relations_after("pass", ())
        self.assertEqual((root, root, root), now)
        self.assertNotEqual(child, root)

    def test_group(self):
        child, root, restart, now = self.relations_after("os.setpgid(0, 0)")
        self.assertEqual((root, child, restart), now)

    def test_session(self):
        child, root, _, now = self.relations_after("os.setsid()")
        self.assertEqual((root, child, child), now)


case.main()
