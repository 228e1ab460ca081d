#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_status --images, and --prune: what it says of real images, and which it removes.

    test_images.py DIRECTORY-OF-COMMANDS
"""
import errno
import json
import os
import subprocess
import sys
import unittest

import lab
import processes
from lab import wait_until


class Images(lab.Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("images"))

    def program(self):
        program = self.spawn(lab.tool("cr_run"), sys.executable, "-c", lab.COUNT.format(status=0))
        wait_until("its numbers", self.numbers)
        return program

    def save(self, name, pid, *options):
        done = subprocess.run([lab.tool("cr_checkpoint"), *options, "-f", self.path("images", name),
                               str(pid)], capture_output=True, text=True, env=self.environment,
                              timeout=lab.PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_images(self, *words, **more):
        return subprocess.run([lab.tool("cr_status"), "--images", self.path("images"), *words],
                              capture_output=True, text=True, env=self.environment,
                              timeout=lab.PATIENCE, check=False, **more)

    def listed(self):
        return [json.loads(line) for line in self.run_images("--json").stdout.splitlines()]

    def names(self):
        return sorted(os.listdir(self.path("images")))

    def size(self, name):
        return os.stat(self.path("images", name)).st_size

    def test_nothing(self):
        done = self.run_images()
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, f"{self.path('images')}: 0 images, 0 B\n", ""))
        os.rmdir(self.path("images"))
        done = self.run_images()
        self.assertEqual((done.returncode, done.stdout), (errno.ENOENT, ""))
        self.assertIn(self.path("images"), done.stderr)

    def test_complete_and_delta(self):
        program = self.program()
        self.save("first", program.pid, "--delta=incremental")
        self.save("second", program.pid, "--delta=incremental")
        with open(self.path("images", "notes"), "w", encoding="ascii") as file:
            file.write("mine")
        first, second = self.listed()
        for one, name in ((first, "first"), (second, "second")):
            self.assertEqual((one["name"], one["kind"], one["pid"], one["processes"], one["bytes"]),
                             (name, "image", program.pid, 1, self.size(name)))
            self.assertTrue(one["whole"], one)
            self.assertIn("print(number, flush=True)", one["program"])
            self.assertGreater(one["stopped_ns"], 0)
        self.assertEqual((first["delta"], first["based_on"]), (False, []))
        self.assertEqual((second["delta"], second["based_on"]), (True, ["first"]))
        said = self.run_images()
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertRegex(said.stdout, r"\nfirst .* complete +\S*python")
        self.assertRegex(said.stdout, r"\nsecond .* delta of first +\S*python")
        self.assertIn(": 2 images, ", said.stdout)
        os.unlink(self.path("images", "first"))
        said = self.run_images()
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stdout, r"\nsecond .* not whole ")
        self.assertIn("name its file with --base", said.stderr)

    def test_tree(self):
        program = self.spawn(lab.tool("cr_run"), "sh", "-c", "sleep 1000 & echo 1; wait")
        wait_until("its start", lambda: self.numbers() and len(processes.children(program.pid)) == 1)
        child = processes.children(program.pid)[0]
        self.others.append(child)
        wait_until("its program", lambda: lab.name_of(child) == "sleep")
        self.save("archive", program.pid, "--tree")
        [one] = self.listed()
        self.assertEqual((one["kind"], one["pid"], one["processes"], one["whole"]),
                         ("archive", program.pid, 2, True))
        self.assertTrue(one["program"].startswith("sh -c sleep"), one)

    def test_prune(self):
        """The oldest go; a delta keeps its base; what is left is good."""
        program = self.program()
        for name in ("old", "older", "base"):
            self.save(name, program.pid)
        self.save("new", program.pid, "--delta=incremental")
        with open(self.path("images", "notes"), "w", encoding="ascii") as file:
            file.write("mine")
        budget = self.size("older") + self.size("base") + self.size("new")
        dry = self.run_images("--prune", str(budget), "--dry-run")
        self.assertEqual((dry.returncode, dry.stderr), (0, ""))
        self.assertTrue(dry.stdout.startswith("would remove old, "), dry.stdout)
        self.assertEqual(self.names(), ["base", "new", "notes", "old", "older"])
        done = self.run_images("--prune", str(budget))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("removed old, "), done.stdout)
        self.assertIn(": 1 image removed, ", done.stdout)
        self.assertEqual(self.names(), ["base", "new", "notes", "older"])
        done = self.run_images("--prune", "1", "--json")
        removed, end = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((removed["removed"], removed["dry_run"]), ("older", False))
        self.assertEqual((end["removed"], end["images"], end["fits"], end["budget"]), (1, 2, False, 1))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.names(), ["base", "new", "notes"])
        done = self.run_images("--prune", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("of each program the newest good image and what it needs", done.stderr)
        good = subprocess.run([lab.tool("cr_inspect"), "--verify", self.path("images", "new")],
                              capture_output=True, text=True, timeout=lab.PATIENCE, check=False)
        self.assertEqual(good.returncode, 0, good.stdout + good.stderr)

    def test_keeper_is_there(self):
        program = self.spawn(lab.tool("cr_run"), "--interval", "100ms", "--into", "images",
                             sys.executable, "-c", lab.COUNT.format(status=0))
        wait_until("images", lambda: sum(name.startswith("context.") for name in self.names()) > 1)
        done = self.run_images("--prune", "1")
        self.assertEqual((done.returncode, done.stdout), (errno.EBUSY, ""))
        self.assertIn("automatic checkpoints go there now", done.stderr)
        self.assertIsNone(program.poll())
        with open(self.path("end"), "w", encoding="ascii"):
            pass
        program.wait(lab.PATIENCE)
        wait_until("the end of the keeper", lambda: not list(self.keepers()))
        self.assertEqual(self.listed()[-1]["also"], ["latest"])
        self.run_images("--prune", "1")
        left = self.names()
        self.assertIn("latest", left)
        self.assertIn("keeper.json", left)
        self.assertNotIn("keeper.lock", left)
        for one in self.listed():
            self.assertTrue(one["whole"])

    def test_options_that_do_not_fit(self):
        for words, text in ((("--prune", "1"), "--images"), (("--images", "images", "--dry-run"), "--prune"),
                            (("--images", "images", "--prune", "much"), "--prune"),
                            (("--images", "images", "412"), "PID")):
            done = self.run_status(*words)
            self.assertEqual((done.returncode, done.stdout), (255, ""), words)
            self.assertIn(text, done.stderr)

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_directory_of_others(self):
        """Nothing is removed in it, by root neither."""
        program = self.program()
        for name in ("one", "two"):
            self.save(name, program.pid)
        os.chown(self.path("images"), 65534, 65534)
        done = self.run_images("--prune", "1")
        self.assertEqual(done.returncode, errno.EACCES)
        os.chown(self.path("images"), 0, 0)
        os.chmod(self.path("images"), 0o1777)
        done = self.run_images("--prune", "1")
        self.assertEqual(done.returncode, errno.EACCES)
        self.assertEqual(self.names(), ["one", "two"])
        os.chmod(self.top, 0o755)
        done = self.run_images("--prune", "1", user=65534, group=65534, extra_groups=[], cwd="/")
        self.assertEqual(done.returncode, errno.EACCES, done.stdout)
        self.assertEqual(self.names(), ["one", "two"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
