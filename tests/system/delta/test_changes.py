#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A page that has changed is never taken for one that has not, however it was changed.

    [CRYO_TRACKER=NAME] test_changes.py DIRECTORY-OF-COMMANDS PROGRAM [TEST...]

Between any two delta images the program changes its memory in one way. Every page that a tracker
calls unchanged is compared (CRYO_AUDIT), and every image must restart as the program was then.
"""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from talker import Talker

BIN = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
TRACKER = os.environ.get("CRYO_TRACKER")  # that must be the one that is used
BITS = ("soft-dirty", "module")  # trackers that go by soft-dirty bits
# Some come early, too: later ones join the mapping with others, of which nothing is known then.
WAYS = ["none", "apart", "none", "apart_dropped", "apart", "drop", "none", "store", "drop",
        "drop_and_fill", "drop", "zero", "drop",
        "free_and_fill", "store", "guard", "guard_stays", "none", "fork", "drop", "zero", "read", "direct", "ring", "writev", "mem", "exchange",
        "exchange_back", "store", "exchange_tables", "none", "exchange_tables", "exchange_huge",
        "page_out", "drop", "page_out", "grow", "grow", "shrink", "grow", "drop", "drop_and_fill",
        "free_and_fill", "unmap", "protect", "guard", "fork", "thread", "huge", "collapse", "huge_all",
        "huge", "brk", "brk", "brk_again", "shared", "private", "stack", "dontfork", "store",
        "dofork", "store", "aside", "none", "store", "aside", "none", "aside", "store", "none"]


def tool(name):
    return os.path.join(BIN, name)


class Program(Talker):
    def change(self, way, seed):
        return self.tell(f"{way} {seed}")


def start():
    program = Program(tool("cr_run"), PROGRAM)
    return program, program.answer()


class Changes(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-changes.")
        self.addCleanup(shutil.rmtree, self.scratch)

    def image(self, name):
        return os.path.join(self.scratch, name)

    def checkpoint(self, program, name, *options, audit=True, status=0):
        environment = dict(os.environ, CRYO_AUDIT="1" if audit else "0")
        done = subprocess.run([tool("cr_checkpoint"), "-v", "--nosync", "-f", self.image(name),
                               *options, str(program.pid)], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, env=environment)
        self.assertEqual(done.returncode == 0, status == 0, done.stderr)
        return done.stdout + done.stderr

    def record(self, name, record):
        done = subprocess.run([tool("cr_inspect"), "--json", self.image(name)], text=True,
                              capture_output=True, check=True)
        records = json.loads(done.stdout)["snapshots"][0]["images"][0]["records"]
        return records[record][0]

    def tracker(self, name):
        return self.record(name, "page_tracker")

    def is_staged(self, name):
        """Whether what had changed was copied in the stop, without a copy of the process."""
        return self.record(name, "image_info")["snapshot"] == "staged"

    def restarted(self, name):
        program = Program(tool("cr_restart"), "-q", "--no-restore-pid", "--no-restore-sid", self.image(name))
        self.addCleanup(program.kill)
        return program

    def check(self, name, expected):
        program = self.restarted(name)
        self.assertEqual(program.change("none", 0), expected, name)
        program.kill()

    def start(self):
        program, answer = start()
        self.addCleanup(program.kill)
        return program, answer

    def watches(self, name):
        return self.used(name) != "hashing"

    def used(self, name):
        tracker = self.tracker(name)["tracker"]
        self.assertIn(TRACKER, (None, tracker))
        return tracker

    def chain(self, mode, audit):
        program, answer = self.start()
        expected = {}
        clean = 0
        for number, way in enumerate(["none", *WAYS]):
            name = f"v{number:02}"
            if number > 0:
                answer = program.change(way, number)
            expected[name] = answer
            with self.subTest(f"{mode}, after {way}", number=number):
                self.checkpoint(program, name, f"--delta={mode}", audit=audit)
                about = self.tracker(name)
                self.assertEqual(about["audited"], about["clean"] if audit else 0)
                clean += about["clean"]
        program.kill()
        if self.watches("v00"):
            self.assertGreater(clean, 5000)
            staged = [name for name in expected if self.is_staged(name)]
            if audit or self.used("v00") in BITS:
                self.assertEqual(staged, [])
            else:
                self.assertGreater(len(staged), 10)
                self.assertNotIn("v00", staged)
        for name, answer in expected.items():
            with self.subTest(f"{mode}, {name} after {['none', *WAYS][int(name[1:])]}"):
                self.check(name, answer)

    def test_every_way_audited(self):
        self.chain("auto", True)

    def test_every_way_to_the_first_image(self):
        self.chain("differential", False)

    def test_every_way_to_the_image_before(self):
        self.chain("incremental", False)

    def test_nothing_is_watched_without_delta(self):
        program, answer = self.start()
        self.checkpoint(program, "v0")
        self.assertNotIn("uw", open(f"/proc/{program.pid}/smaps", encoding="ascii").read().split())
        self.check("v0", answer)

    def test_an_image_that_failed_is_no_base(self):
        program, answer = self.start()
        self.checkpoint(program, "v0", "--delta")
        self.checkpoint(program, "v1", "--delta")
        answer = program.change("store", 7)
        # This checkpoint fails when it writes, after what is watched has changed.
        with open(os.devnull, "rb") as nothing:
            failed = subprocess.run(
                ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", tool("cr_checkpoint"), "-q",
                 "--nosync", "--delta=incremental", "-f", self.image("v2"), str(program.pid)],
                capture_output=True, text=True, check=False, stdin=nothing)
        self.assertEqual(failed.returncode, errno.EFBIG, failed.stderr)
        self.assertIn("cr_checkpoint: ", failed.stderr)
        self.assertIn(self.image("v2"), failed.stderr)
        self.checkpoint(program, "v3", "--delta=incremental")
        self.assertEqual(self.tracker("v3")["clean"], 0)
        self.check("v3", answer)

    def test_another_image_as_base(self):
        program, _ = self.start()
        self.checkpoint(program, "v0", "--delta=incremental")
        program.change("store", 1)
        self.checkpoint(program, "v1", "--delta=incremental")
        answer = program.change("read", 2)
        # What is watched since v1 says nothing about v0.
        self.checkpoint(program, "v2", "--delta=incremental", "--base", self.image("v0"))
        self.assertEqual(self.tracker("v2")["clean"], 0)
        self.check("v2", answer)

    def test_a_restored_program_is_watched_anew(self):
        program, _ = self.start()
        self.checkpoint(program, "v0", "--delta")
        program.change("store", 1)
        self.checkpoint(program, "v1", "--delta")
        program.kill()
        back = self.restarted("v1")
        answer = back.change("store", 2)
        self.checkpoint(back, "v2", "--delta=incremental", "--base", self.image("v1"))
        self.assertEqual(self.tracker("v2")["clean"], 0)
        answer = back.change("store", 3)
        self.checkpoint(back, "v3", "--delta=incremental", "--base", self.image("v2"))
        if self.watches("v3"):
            self.assertGreater(self.tracker("v3")["clean"], 0)
        back.kill()
        self.check("v3", answer)

    def test_what_has_changed_is_copied_in_the_stop(self):
        program, answer = self.start()
        answers = {}
        for name, *options in (("v0",), ("v1",), ("v2", "--stage-memory=0"), ("v3",),
                               ("v4", "--stage-memory=4096"), ("v5", "--stage-memory=32M")):
            answers[name] = answer
            said = self.checkpoint(program, name, "--delta=incremental", *options, audit=False)
            if self.used("v0") == "userfaultfd":
                self.assertEqual(self.is_staged(name), name in ("v1", "v3", "v5"), name)
                self.assertEqual("copied in the stop" in said, self.is_staged(name), said)
            answer = program.change("store", int(name[1:]))
        program.kill()
        for name, answer in answers.items():
            self.check(name, answer)

    def test_a_program_that_may_write_no_files(self):
        # What is copied goes into a file, which would end it by SIGXFSZ.
        program = Program("sh", "-c", 'ulimit -f 0; exec "$@"', "sh", tool("cr_run"), PROGRAM)
        self.addCleanup(program.kill)
        answer = program.answer()
        for name in ("v0", "v1", "v2"):
            self.checkpoint(program, name, "--delta=incremental", audit=False)
            self.assertFalse(self.is_staged(name))
            answer = program.change("store", int(name[1:]))
        self.checkpoint(program, "v3", "--delta=incremental", audit=False)
        program.kill()
        self.check("v3", answer)

    def test_killed_at_random(self):
        program, answer = self.start()
        self.checkpoint(program, "v0", "--delta=incremental", audit=False)
        rng = random.Random(5)
        for number in range(1, 16):
            with subprocess.Popen([tool("cr_checkpoint"), "-q", "--nosync", "--delta=incremental",
                                   "-f", self.image(f"k{number}"), str(program.pid)],
                                  stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
                time.sleep(rng.uniform(0.005, 0.05))
                command.kill()
            answer = program.change("store", number)
            if number % 5 == 0:
                self.checkpoint(program, f"v{number}", "--delta=incremental", audit=False)
        program.kill()
        self.check("v15", answer)

    def test_stopped_in_between(self):
        for audit in (True, False):
            program, answer = self.start()
            answers = {}
            for number, how in enumerate(("auto", "stop", "auto", "stop", "stop")):
                name = f"{'audited' if audit else 'v'}{number}"
                answers[name] = answer
                said = self.checkpoint(program, name, "--delta=incremental", f"--snapshot={how}",
                                       audit=audit)
                if self.watches(name) and how == "stop" and not audit:
                    self.assertGreater(self.tracker(name)["clean"], 0, said)
                answer = program.change("store", number)
            program.kill()
            for name, answer in answers.items():
                self.check(name, answer)

    def test_written_from_outside_all_the_time(self):
        # Also in the moment between the copy and the time from which changes are noted.
        program, _ = self.start()
        area = int(program.change("where", 0), 16)
        self.checkpoint(program, "v0", "--delta=incremental", audit=False)
        rng = random.Random(6)
        memory = os.open(f"/proc/{program.pid}/mem", os.O_WRONLY)
        self.addCleanup(os.close, memory)
        done = threading.Event()

        def write():
            while not done.is_set():
                os.pwrite(memory, rng.randbytes(8), area + rng.randrange(128) * 4096)

        for number in range(1, 9):
            done.clear()
            writer = threading.Thread(target=write)
            writer.start()
            try:
                self.checkpoint(program, f"w{number}", "--delta=incremental", audit=False)
            finally:
                done.set()
                writer.join()
            answer = program.change("none", 0)
            # A write that was lost would be found here.
            self.checkpoint(program, f"v{number}", "--delta=incremental")
        program.kill()
        self.check("v8", answer)

    def test_bits_that_somebody_else_clears_are_left_to_them(self):
        program, _ = self.start()
        self.checkpoint(program, "v0", "--delta=incremental")
        if self.used("v0") not in BITS:
            self.skipTest("soft-dirty bits are not used here")
        program.change("store", 1)
        self.checkpoint(program, "v1", "--delta=incremental")
        self.assertGreater(self.tracker("v1")["clean"], 0)
        program.change("store", 2)
        with open(f"/proc/{program.pid}/clear_refs", "w", encoding="ascii") as bits:
            bits.write("4")
        answer = program.change("read", 3)
        for name in ("v2", "v3"):
            self.checkpoint(program, name, "--delta=incremental")
            self.assertEqual(self.tracker(name)["clean"], 0)
            self.assertEqual(self.tracker(name)["tracker"], "hashing")
        program.kill()
        self.check("v3", answer)

    def test_bits_that_somebody_else_has_cleared_before(self):
        program, answer = self.start()
        with open(f"/proc/{program.pid}/clear_refs", "w", encoding="ascii") as bits:
            bits.write("4")
        self.checkpoint(program, "v0", "--delta=incremental")
        if self.tracker("v0")["tracker"] == "userfaultfd":
            self.skipTest("soft-dirty bits are not used here")
        self.assertEqual(self.tracker("v0")["tracker"], "hashing")
        program.kill()
        self.check("v0", answer)

    def test_a_name_that_no_tracker_has(self):
        program, _ = self.start()
        os.environ["CRYO_TRACKER"] = "guesses"
        try:
            self.checkpoint(program, "v0", "--delta=incremental")
        finally:
            if TRACKER is None:
                del os.environ["CRYO_TRACKER"]
            else:
                os.environ["CRYO_TRACKER"] = TRACKER
        self.assertEqual(self.tracker("v0")["tracker"], "hashing")

    def test_the_program_closes_what_it_does_not_know(self):
        program, _ = self.start()
        self.checkpoint(program, "v0", "--delta=incremental")
        if not self.watches("v0"):
            self.skipTest("nothing is watched here")
        answer = program.change("close", 1)
        self.checkpoint(program, "v1", "--delta=incremental")
        self.assertEqual(self.tracker("v1")["clean"], 0)
        answer = program.change("store", 2)
        self.checkpoint(program, "v2", "--delta=incremental")
        self.assertGreater(self.tracker("v2")["clean"], 0)
        program.kill()
        self.check("v2", answer)


if __name__ == "__main__":
    unittest.main()
