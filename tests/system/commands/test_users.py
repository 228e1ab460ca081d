#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Root saves what belongs to other users."""
import ctypes
import errno
import os
import unittest

import case

# A child of root's that is somebody else, and may be looked into all the same.
FAMILY = """
import ctypes, os, signal
come, gone = os.pipe()
if os.fork() == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
    os.write(gone, b"x")
    os.close(gone)
    signal.pause()
os.read(come, 1)
"""


def become_weak():
    """Root in a container may often not change the limits of others."""
    pr_capbset_drop, cap_sys_resource = 24, 24
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_resource, 0, 0, 0)


@unittest.skipUnless(os.geteuid() == 0, "nobody else's processes are to be had")
class Users(case.Case):
    def test_limits_of_another_user(self):
        program = self.start("import resource\n"
                             "resource.setrlimit(resource.RLIMIT_NOFILE, (123, 456))",
                             user=1000, group=1000, extra_groups=[])
        done = self.checkpoint("-f", "image", program.pid, preexec_fn=become_weak)
        self.assertEqual(0, done.returncode, done.stderr)
        # Root cannot restart it, and is told so now.
        self.assertIn(f"process {program.pid} is of user 1000", done.stderr)
        self.assertIn("chown 1000:1000", done.stderr)
        shown = self.run_command("cr_inspect", "--records", "image").stdout
        lines = [line.strip() for line in shown.splitlines()]
        at = lines.index("resource = 7")
        self.assertEqual([f"soft = {123:#x}", f"hard = {456:#x}"], lines[at + 1:at + 3])

    def test_several_users(self):
        """No restart could bring them back: nothing is written, and nobody killed."""
        program = self.start(FAMILY)
        said = self.refuse(errno.ENOTSUP, "--kill", "-f", "image", program.pid)
        self.assertIn("its user is 1000", said)
        self.assertIn("one user", said)
        self.assertEqual([], self.files())
        self.assert_alive(program)


case.main()
