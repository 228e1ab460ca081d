#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_checkpoint --delta: images of a process that leave out what an earlier image has.

    test_process.py DIRECTORY-OF-COMMANDS PROGRAM

Each version of a program that changes its memory must restart as it was then, whatever its image
leaves to others; and what cannot be used is named before anything is touched.
"""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = sys.argv.pop(1)
PROGRAM = sys.argv.pop(1)
PAGES = 2000
PATIENCE = 60


def tool(name):
    return os.path.join(BIN, name)


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE)


class Program:
    """The program, alive: started, or brought back out of an image."""

    def __init__(self, directory, *words):
        self.directory = directory
        self.number = 0
        self.process = subprocess.Popen([tool("cr_run"), PROGRAM, directory, str(PAGES), *words],
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        self.pid = self.process.pid
        self.await_answer()

    def path(self, name):
        return os.path.join(self.directory, name)

    def await_answer(self, suffix=""):
        path = self.path(f"answer.{self.number}{suffix}")
        end = time.monotonic() + PATIENCE
        while not os.path.exists(path):
            if self.process.poll() is not None:
                raise AssertionError(f"the program ended with {self.process.returncode}")
            if time.monotonic() > end:
                raise AssertionError(f"no {path}")
            time.sleep(0.001)
        with open(path, encoding="ascii") as file:
            return file.read()

    def order(self, line):
        """Gives a command; what the program answers."""
        self.number += 1
        with open(self.path("new"), "w", encoding="ascii") as file:
            file.write(line + "\n")
        os.rename(self.path("new"), self.path(f"command.{self.number}"))
        return self.await_answer()

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Deltas(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="cryo-delta-process.")
        self.addCleanup(shutil.rmtree, self.scratch)
        self.talk = os.path.join(self.scratch, "talk")
        os.mkdir(self.talk)
        self.program = None

    def start(self, *words):
        self.program = Program(self.talk, *words)
        self.addCleanup(self.program.kill)
        return self.program

    def image(self, name):
        return os.path.join(self.scratch, name)

    def checkpoint(self, name, *options):
        return run(tool("cr_checkpoint"), "-q", "--nosync", "-f", self.image(name), *options,
                   self.program.pid)

    def saved(self, name, *options):
        done = self.checkpoint(name, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return os.path.getsize(self.image(name))

    def base_of(self, name):
        """The name of the image that this one is a delta of, or None."""
        ids = {}
        for other in os.listdir(self.scratch):
            if other.startswith("v"):
                header = self.inspect(other)["header"]
                ids[header["id"]] = other
        base = self.inspect(name)["header"].get("base_id")
        return ids.get(base) if base and set(base) != {"0"} else None

    def inspect(self, name):
        done = run(tool("cr_inspect"), "--json", self.image(name))
        self.assertEqual(done.returncode, 0, done.stderr)
        text = json.loads(done.stdout)
        return text["snapshots"][0]["images"][0]

    def check_restart(self, name, number, line, expected, *options, child=False):
        """Brought back, it was at command `number`, and `line` gives what it gave."""
        self.program.kill()
        for left in os.listdir(self.talk):
            os.unlink(os.path.join(self.talk, left))
        back = subprocess.Popen([tool("cr_restart"), "-q", "--no-restore-pid", "--no-restore-sid",
                                 *options, self.image(name)], stdin=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, start_new_session=True)
        program = self.program
        program.process = back
        program.number = number
        self.assertEqual(program.order(line), expected, name)
        if child:
            child_answer = program.await_answer(".child")
            self.assertNotEqual(child_answer, expected)
            self.assertEqual(child_answer, child)
        program.kill()
        back.stderr.close()

    def test_every_version_of_a_chain(self):
        for mode in ("auto", "incremental", "differential"):
            with self.subTest(mode):
                self.setUp()
                program = self.start()
                rng = random.Random(7)
                full = self.saved("v00", f"--delta={mode}")
                versions = [("v00", 0)]
                for number in range(1, 9):
                    first = rng.randrange(PAGES - 100)
                    program.order(rng.choice([f"fill {number + 1} {first} 30",
                                              f"zero {first} 20", f"drop {first} 25"]))
                    name = f"v{number:02}"
                    size = self.saved(name, f"--delta={mode}")
                    self.assertLess(size, full / 4)
                    versions.append((name, number))
                bases = {name: self.base_of(name) for name, _ in versions}
                self.assertIsNone(bases["v00"])
                if mode == "incremental":
                    self.assertEqual(bases["v08"], "v07")
                if mode == "differential":
                    self.assertEqual(bases["v08"], "v00")
                # What the program would say at each version, from one that is not saved at all.
                self.program.kill()
                for name, number in versions:
                    with self.subTest(f"{mode} {name}"):
                        self.check_restart(name, number, "zero 0 0", self.state(number))
                for name, _ in versions:
                    done = run(tool("cr_inspect"), "--verify", self.image(name))
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def state(self, number):
        """The checksum after command `number` of test_every_version_of_a_chain, undisturbed."""
        if not hasattr(Deltas, "states"):
            with tempfile.TemporaryDirectory() as talk:
                program = Program(talk)
                states = [program.await_answer()]
                rng = random.Random(7)
                for number_now in range(1, 9):
                    first = rng.randrange(PAGES - 100)
                    states.append(program.order(
                        rng.choice([f"fill {number_now + 1} {first} 30", f"zero {first} 20",
                                    f"drop {first} 25"])))
                program.kill()
                Deltas.states = states
        return Deltas.states[number]

    def test_a_page_that_was_gone_in_between_is_saved_again(self):
        program = self.start()
        before = program.await_answer()
        self.saved("v1", "--delta")
        program.order("drop 10 50")
        self.saved("v2", "--delta=incremental")
        self.assertEqual(program.order("fill 1 10 50"), before)
        self.saved("v3", "--delta=incremental")
        self.assertEqual(self.base_of("v3"), "v2")
        self.check_restart("v3", 2, "zero 0 0", before)

    def test_a_base_without_digests(self):
        program = self.start()
        full = self.saved("v1")
        answer = program.order("fill 5 3 1")
        self.assertLess(self.saved("v2", "--base", self.image("v1")), full / 4)
        self.assertEqual(self.base_of("v2"), "v1")
        self.check_restart("v2", 1, "zero 0 0", answer)

    def test_compressed_and_stopped(self):
        program = self.start()
        self.saved("v1", "--delta", "--compress=always", "--snapshot=stop")
        answer = program.order("fill 5 3 1")
        self.saved("v2", "--delta", "--compress=auto", "--snapshot=stop")
        self.assertEqual(self.base_of("v2"), "v1")
        self.check_restart("v2", 1, "zero 0 0", answer)

    def test_a_tree(self):
        program = self.start("child")
        program.await_answer(".child")
        full = self.saved("v1", "--delta")
        answer = program.order("fill 5 3 1")
        child = program.await_answer(".child")
        self.assertLess(self.saved("v2", "--delta"), full / 4)
        self.check_restart("v2", 1, "zero 0 0", answer, child=child)

    def test_a_missing_or_damaged_base_is_named(self):
        program = self.start()
        self.saved("v1", "--delta")
        answer = program.order("fill 5 3 1")
        self.saved("v2", "--delta")
        elsewhere = os.path.join(self.scratch, "elsewhere")
        os.mkdir(elsewhere)
        os.rename(self.image("v1"), os.path.join(elsewhere, "v1"))
        self.program.kill()
        done = run(tool("cr_restart"), "--no-restore-pid", self.image("v2"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--base", done.stderr)
        self.check_restart("v2", 1, "zero 0 0", answer, "--base",
                           os.path.join(elsewhere, "v1"))
        with open(os.path.join(elsewhere, "v1"), "r+b") as file:
            file.seek(-100, os.SEEK_END)
            file.write(b"damage")
        done = run(tool("cr_restart"), "--no-restore-pid", self.image("v2"), "--base",
                   os.path.join(elsewhere, "v1"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("elsewhere/v1", done.stderr)

    def test_an_image_never_replaces_one_that_it_needs(self):
        program = self.start()
        self.saved("v1", "--delta")
        program.order("fill 5 3 1")
        self.saved("v2", "--delta")
        done = self.checkpoint("v1", "--clobber", "--base", self.image("v2"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("would be replaced", done.stderr)
        # Nor a directory that has one.
        to_directory = (tool("cr_checkpoint"), "-q", "--nosync", "-d", self.image("directory"))
        done = run(*to_directory, program.pid)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(*to_directory, "--base", self.image("directory"), program.pid)
        self.assertEqual(done.returncode, errno.EEXIST, done.stderr)
        self.assertIn("would be replaced", done.stderr)
        # Not named: then it is complete.
        answer = program.order("fill 6 3 1")
        self.saved("v1", "--clobber", "--delta")
        self.assertIsNone(self.base_of("v1"))
        os.unlink(self.image("v2"))
        self.check_restart("v1", 2, "zero 0 0", answer)

    def test_backups_that_are_needed_stay(self):
        for word in ("1", "2", "name"):
            with self.subTest(word):
                self.setUp()
                program = self.start()
                backup = "--backup=" + (self.image("v_old") if word == "name" else word)
                for number in range(4):
                    answer = program.order(f"fill {number + 5} 3 1")
                    self.saved("v1", "--delta=incremental", backup)
                if word == "name":
                    # There was none to be found that is not replaced.
                    self.assertIsNone(self.base_of("v1"))
                    done = self.checkpoint("v1", backup, "--base", self.image("v_old"))
                    self.assertEqual(done.returncode, errno.EEXIST, done.stderr)
                    self.assertIn("would be replaced", done.stderr)
                else:
                    self.assertIsNotNone(self.base_of("v1"))
                images = sorted(set(os.listdir(self.scratch)) - {"talk"})
                self.assertGreater(len(images), 1)
                for name in images:
                    done = run(tool("cr_inspect"), "--verify", self.image(name))
                    self.assertEqual(done.returncode, 0, name + done.stdout + done.stderr)
                self.check_restart("v1", 4, "zero 0 0", answer)


if __name__ == "__main__":
    unittest.main()
