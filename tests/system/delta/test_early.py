#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is copied before the stop is used only where it is as it was then.

    test_early.py DIRECTORY-OF-COMMANDS PROGRAM [TEST...]

The program changes much, which is copied early, and then its memory in one way, in a callback: after
that and before it stands still. Every image must restart as the program was in the stop.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from talker import Talker

BIN = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
NOT_HERE = 77
# The ways of changes.c. After those of READING the early copies are of no use.
READING = ["read", "direct"]
WAYS = ["none", "store", "zero", *READING, "ring", "writev", "mem", "exchange", "store", "exchange_back",
        "exchange_tables", "none", "exchange_huge", "page_out", "grow", "grow", "shrink", "drop",
        "drop_and_fill", "free_and_fill", "unmap", "guard", "guard_stays", "none", "protect", "fork", "thread", "huge",
        "collapse", "huge_all", "brk", "brk", "brk_again", "apart", "apart_dropped", "shared",
        "private", "stack", "dontfork", "dofork", "store", "split", "none", "join", "none"]


def tool(name):
    return os.path.join(BIN, name)


def sum_of(program):
    """Of all its memory."""
    return program.tell("none 0")


def checkpoint(image, program, *options, audit=False, command=()):
    environment = dict(os.environ, CRYO_AUDIT="1" if audit else "0")
    return subprocess.run([*command, tool("cr_checkpoint"), "-v", "--nosync", "--delta=incremental",
                           "-f", image, *options, str(program.pid)], capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL, env=environment)


class Early(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-early.")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.program = Talker(tool("cr_run"), PROGRAM)
        self.addCleanup(self.program.kill)
        self.program.answer()

    def image(self, name):
        return os.path.join(self.scratch, name)

    def save(self, name, *options, audit=False):
        """What it says, and how many pages were copied before the stop."""
        done = checkpoint(self.image(name), self.program, *options, audit=audit)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout + done.stderr
        found = re.search(r"(?:; \d+ copied in the stop, (\d+) before|and (\d+) copied before)", said)
        return said, int((found.group(1) or found.group(2)) if found else 0)

    def clean(self, name):
        done = subprocess.run([tool("cr_inspect"), "--json", self.image(name)], text=True,
                              capture_output=True, check=True)
        records = json.loads(done.stdout)["snapshots"][0]["images"][0]["records"]
        return records["page_tracker"][0]["clean"]

    def check(self, name, expected):
        back = Talker(tool("cr_restart"), "-q", "--no-restore-pid", "--no-restore-sid", self.image(name))
        self.addCleanup(back.kill)
        self.assertEqual(sum_of(back), expected, name)
        back.kill()

    def chain(self, audit, *options):
        sums = {}
        copied = {}
        self.save("v00", *options, audit=audit)
        for number, way in enumerate(WAYS, start=1):
            name = f"v{number:02}"
            with self.subTest(f"after {way}", number=number):
                self.program.tell(f"later {way} {number}")
                said, copied[name] = self.save(name, *options, audit=audit)
                sums[name] = sum_of(self.program)
                if way in READING:
                    self.assertEqual(copied[name], 0, said)
                elif way in ("none", "store", "zero"):
                    self.assertGreater(copied[name], 50, said)
        self.program.kill()
        for name, expected in sums.items():
            with self.subTest(f"{name} after {WAYS[int(name[1:]) - 1]}"):
                self.check(name, expected)

    def test_every_way(self):
        self.chain(False, "--snapshot=staged")

    def test_every_way_as_planned(self):
        self.chain(False)

    def test_every_way_audited(self):
        self.chain(True)

    def test_nothing_where_another_process_of_the_tree_may_write_to_it(self):
        for other, waits in (("sleep 1000", True), ('sh -c "while :; do :; done"', False)):
            program = Talker(tool("cr_run"), "sh", "-c", f'{other} & "$0"; exit', PROGRAM)
            self.addCleanup(program.kill)
            program.answer()
            said = ""
            for number in range(3):
                program.tell(f"later store {number}")
                done = checkpoint(self.image(f"{waits}.{number}"), program, "--tree")
                self.assertEqual(done.returncode, 0, done.stderr)
                said = done.stdout + done.stderr
            early = re.findall(r" copied in the stop, (\d+) before", said)
            self.assertEqual(any(int(pages) > 50 for pages in early), waits, said)
            program.kill()

    def test_nothing_where_the_program_may_be_writing_to_itself(self):
        self.save("v0", "--snapshot=staged")
        self.program.tell("later store 1")
        said, copied = self.save("v1", "--snapshot=staged")
        self.assertGreater(copied, 50, said)
        self.program.tell("writers 0")
        self.program.tell("later store 2")
        said, copied = self.save("v2", "--snapshot=staged")
        self.assertEqual(copied, 0, said)
        expected = sum_of(self.program)
        self.program.kill()
        self.check("v2", expected)

    def test_an_image_that_failed_is_no_base(self):
        self.save("v0")
        self.program.tell("later store 1")
        self.save("v1")
        self.program.tell("later store 2")
        # This checkpoint fails when it writes; what has changed was protected again long before.
        failed = checkpoint(self.image("v2"), self.program,
                            command=("sh", "-c", 'ulimit -f 8; exec "$@"', "sh"))
        self.assertNotEqual(failed.returncode, 0)
        self.save("v3")
        self.assertEqual(self.clean("v3"), 0)
        expected = sum_of(self.program)
        self.program.kill()
        self.check("v3", expected)

    def test_killed_before_the_stop(self):
        # In the callback: what has changed is protected again, and nobody stands still yet.
        self.save("v0")
        self.program.tell("later store 1")
        self.save("v1")
        self.program.tell("later await 2")
        with subprocess.Popen([tool("cr_checkpoint"), "-q", "--nosync", "--delta=incremental", "-f",
                               self.image("v2"), str(self.program.pid)],
                              stdin=subprocess.DEVNULL) as command:
            self.assertEqual(self.program.answer(), "awaits\n")
            command.kill()
        self.program.say("go")
        sum_of(self.program)
        self.save("v3")
        self.assertEqual(self.clean("v3"), 0)
        expected = sum_of(self.program)
        self.program.kill()
        self.check("v3", expected)


def is_of_use():
    """Whether pages are copied early on this kernel, by this user."""
    with tempfile.TemporaryDirectory() as scratch:
        program = Talker(tool("cr_run"), PROGRAM)
        try:
            program.answer()
            for number in range(3):
                program.tell(f"later store {number}")
                done = checkpoint(os.path.join(scratch, str(number)), program)
                if done.returncode != 0:
                    sys.exit(done.stderr)
        finally:
            program.kill()
    return re.search(r"copied in the stop, [1-9]\d* before", done.stdout + done.stderr) is not None


if __name__ == "__main__":
    release = tuple(int(number) for number in os.uname().release.split(".")[:2])
    if release < (6, 10) and not is_of_use():
        print("nothing is copied early on this kernel")
        sys.exit(NOT_HERE)
    unittest.main()
