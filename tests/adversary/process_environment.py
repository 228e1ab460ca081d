#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user starts a program that has more rights than he, is linked with libcr or with what
cr_run preloads, and gives it Cryo's variables: it does nothing that they say."""
import os
import shutil
import struct
import subprocess
import sys

import process_attack
from process_attack import ATTACKER, PLACE, user

ENOSUPPORT = 2356
INERT = ["secure 1", f"init {ENOSUPPORT}", f"request {ENOSUPPORT}", f"register {ENOSUPPORT}",
         "caught 0000000000000000"]
PROGRAMS = []


def capability(number):
    """An extended attribute that gives it to a program: permitted and effective."""
    revision_2, effective = 0x02000000, 1
    return struct.pack("<IIIII", revision_2 | effective, 1 << number, 0, 0, 0)


def make_setuid(program):
    os.chmod(program, 0o4755)


def make_setgid(program):
    os.chmod(program, 0o2755)


def make_capable(program):
    cap_dac_override = 1
    os.setxattr(program, "security.capability", capability(cap_dac_override))


class Environment(process_attack.Attack):
    def place(self, program, privilege):
        """A copy that has it."""
        name = os.path.join(PLACE, os.path.basename(program))
        shutil.copy(program, name)
        os.chmod(name, 0o755)
        privilege(name)
        return name

    def variables(self):
        """Each alone, as a word in front of a shell's command."""
        self.write("bin/cr_checkpoint", f"#!/bin/sh\nid -u > {self.path('ran')}\n", 0o755)
        shutil.copy(self.path("bin/cr_checkpoint"), self.path("bin/cr_restart"))
        self.write("plan", "nonsense", 0o644, ATTACKER)
        return ["CRYO_PLAN_FD=3", "CRYO_PLAN_FD=99", "CRYO_SIGNAL=2", "CRYO_SIGNAL=11",
                f"CRYO_BINDIR={self.path('bin')}", "CRYO_SELF=$$:3:3", "CRYO_REPORT_FD=3",
                f"CRYO_LIBDIR={self.path('bin')}", f"CRYO_BACKENDS={self.path('bin')}",
                "CRYO_JOB=1:secret:1:127.0.0.1", f"CRYO_DAEMON={self.path('bin/cr_checkpoint')}"]

    def run_it(self, program, variable):
        return subprocess.run(["sh", "-c", f'exec 3<plan; {variable} exec "$0"', program],
                              cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=10, **user(ATTACKER))

    def test_inert(self):
        os.mkdir(self.path("bin"), 0o755)
        variables = self.variables()
        self.assertTrue(PROGRAMS)
        for program in PROGRAMS:
            for privilege in (make_setuid, make_setgid, make_capable):
                placed = self.place(program, privilege)
                for variable in ("HARMLESS=1", *variables):
                    with self.subTest(program=os.path.basename(program),
                                      privilege=privilege.__name__, variable=variable):
                        done = self.run_it(placed, variable)
                        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
                        # Besides the standard ones only that of the plan, which we have given.
                        self.assertEqual([*INERT, "descriptors 4"], done.stdout.splitlines())
                        self.assertFalse(os.path.exists(self.path("ran")))

    def test_obeyed_without_privilege(self):
        """The same programs obey where nothing is gained: so the test sees what it should."""
        os.mkdir(self.path("bin"), 0o755)
        self.variables()
        for program in PROGRAMS:
            placed = self.place(program, lambda name: None)
            done = self.run_it(placed, "HARMLESS=1")
            self.assertEqual(["secure 0", "init 0"], done.stdout.splitlines()[:2], done.stderr)
            self.assertIn("restart plan", self.run_it(placed, "CRYO_PLAN_FD=3").stderr)
            done = self.run_it(placed, f"CRYO_BINDIR={self.path('bin')}")
            self.assertIn("request 0", done.stdout)
            with open(self.path("ran"), encoding="ascii") as file:
                self.assertEqual(f"{ATTACKER}\n", file.read())
            os.unlink(self.path("ran"))


if __name__ == "__main__":
    PROGRAMS = sys.argv[2:]
    del sys.argv[2:]
    process_attack.main()
