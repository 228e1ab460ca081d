#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Choosing a backend: test_backends.py DIRECTORY-OF-COMMANDS DIRECTORY-OF-PLUG-INS"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

BIN, PLUGINS = sys.argv[1:3]


class Backends(unittest.TestCase):
    """Each test has a directory and a program that waits."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.image = os.path.join(self.scratch.name, "image")
        # The program says that it has begun, and ends when its standard input does.
        self.program = subprocess.Popen(
            [os.path.join(BIN, "cr_run"), "sh", "-c", "echo begun; read line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self._end)
        self.assertEqual(b"begun\n", self.program.stdout.readline())

    def _end(self):
        self.program.kill()
        self.program.communicate()

    def command(self, name, *arguments):
        environment = {**os.environ, "CRYO_BACKENDS": PLUGINS}
        return subprocess.run([os.path.join(BIN, name), *arguments], env=environment, check=False,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)

    def test_a_plug_in_saves_and_restarts(self):
        saved = self.command("cr_checkpoint", "-v", "--backend", "ten-lines", "-f", self.image,
                             str(self.program.pid))
        self.assertEqual(0, saved.returncode, saved.stderr)
        self.assertIn("backend ten-lines", saved.stderr)
        back = self.command("cr_restart", "--backend", "ten-lines", self.image)
        self.assertEqual(0, back.returncode, back.stderr)
        self.assertEqual(f"{self.program.pid}\n", back.stdout)

    def test_an_image_is_not_overwritten_by_a_plug_in(self):
        with open(self.image, "w", encoding="ascii") as file:
            file.write("precious")
        refused = self.command("cr_checkpoint", "--noclobber", "--backend", "ten-lines", "-f",
                               self.image, str(self.program.pid))
        self.assertNotEqual(0, refused.returncode)
        self.assertIn("exists", refused.stderr)
        with open(self.image, encoding="ascii") as file:
            self.assertEqual("precious", file.read())
        # Replaced, it is still there under another name of its own.
        os.link(self.image, self.image + ".kept")
        saved = self.command("cr_checkpoint", "--backend", "ten-lines", "-f", self.image,
                             str(self.program.pid))
        self.assertEqual(0, saved.returncode, saved.stderr)
        with open(self.image + ".kept", encoding="ascii") as file:
            self.assertEqual("precious", file.read())
        with open(self.image, encoding="ascii") as file:
            self.assertNotEqual("precious", file.read())
        self.assertEqual({"image", "image.kept"},
                         {name for name in os.listdir(self.scratch.name) if "image" in name})

    def test_a_signal_comes_after_a_plug_in_has_saved(self):
        saved = self.command("cr_checkpoint", "--kill", "--backend", "ten-lines", "-f", self.image,
                             str(self.program.pid))
        self.assertEqual(0, saved.returncode, saved.stderr)
        self.assertEqual(-signal.SIGKILL, self.program.wait(60))

    def test_an_unknown_backend_is_named(self):
        for name in ("nothing", "../evil", ""):
            refused = self.command("cr_checkpoint", "--backend", name, "-f", self.image,
                                   str(self.program.pid))
            self.assertNotEqual(0, refused.returncode)
            self.assertIn(name, refused.stderr)
        self.assertFalse(os.path.exists(self.image))

    def test_a_library_that_is_no_backend(self):
        refused = self.command("cr_checkpoint", "--backend", "none-at-all", "-f", self.image,
                               str(self.program.pid))
        self.assertIn("is no backend", refused.stderr)

    @unittest.skipIf(os.path.exists("/dev/cryo"), "the module is loaded")
    def test_without_the_module(self):
        forced = self.command("cr_checkpoint", "--backend", "kmod", "-f", self.image,
                              str(self.program.pid))
        self.assertNotEqual(0, forced.returncode)
        self.assertIn("the kernel module is not loaded", forced.stderr)
        chosen = self.command("cr_checkpoint", "-v", "-f", self.image, str(self.program.pid))
        self.assertEqual(0, chosen.returncode, chosen.stderr)
        lines = [line for line in chosen.stderr.splitlines() if "backend" in line]
        self.assertEqual(1, len(lines), chosen.stderr)
        self.assertIn("backend user", lines[0])
        self.assertIn("not loaded", lines[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
