#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a program shares with its parent by clone(2), where that is not saved with it."""
import ctypes
import os
import sys

import case

# The numbers of the system calls and of the flag are those of Linux on x86-64.
CLONE_FS, SIGCHLD, CLONE, KCMP, KCMP_FS = 0x200, 17, 56, 312, 3
LAUNCHER = f"""
import ctypes, os, sys
flags, *words = sys.argv[1:]
pid = ctypes.CDLL(None).syscall({CLONE}, ctypes.c_long(int(flags) | {SIGCHLD}), None, None, None, None)
if pid == 0:
    os.execv(words[0], words)
os.waitpid(pid, 0)
"""


class OutsideSharing(case.Case):
    def setUp(self):
        if ctypes.CDLL(None).syscall(KCMP, os.getpid(), os.getpid(), KCMP_FS, 0, 0) < 0:
            self.skipTest("kcmp(2) may not be called here")
        super().setUp()

    def said(self, flags):
        """By a checkpoint of a program whose parent has made it with these flags."""
        launcher = self.spawn(sys.executable, "-c", LAUNCHER, flags, case.command("cr_run"),
                              "/usr/bin/python3", "-S", "-c", case.ECHO.format(setup="", each="pass"))
        self.assertEqual("ready\n", launcher.stdout.readline())
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="ascii") as file:
            program, = file.read().split()
        said = self.save("--nosync", "-f", "image", program).stderr
        self.assert_alive(launcher)
        case.kill(int(program))
        self.end(launcher)
        self.assert_good("image")
        return said, (f"process {program} shares its working directory, root and umask with process "
                      f"{launcher.pid}, which is not in the image")

    def test_directory(self):
        said, notice = self.said(CLONE_FS)
        self.assertIn(notice, said)

    def test_none(self):
        said, _ = self.said(0)
        self.assertNotIn("shares", said)


case.main()
