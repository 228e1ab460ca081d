#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker has root work with a service directory, and a version, that are the attacker's."""
import contextlib
import errno
import fcntl
import os
import shutil
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402

PATIENCE = 10  # seconds, of a command that meets what the attacker has left


class Delta(case.Case):
    """Paths are relative to a directory in which everybody may make files, as /tmp is."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o1777)

    def delta(self, *words, uid=0, **more):
        return self.run_command("cr_delta", *words, **attack.user(uid), **more)

    def add(self, number, uid, mode=0o644):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("file"))  # not even root writes to it here (fs.protected_regular)
        with open(self.path("file"), "xb") as file:
            file.write(bytes([number]) * 20000)
        os.chown(self.path("file"), uid, uid)
        os.chmod(self.path("file"), mode)
        done = self.delta("add", "--complete", "--service", f"service.{uid}", "file", "-o",
                          f"image.{uid}.{number}", uid=uid)
        self.assertEqual(0, done.returncode, done.stderr)

    def images(self):
        return [name for name in self.files() if name.startswith("image.")]

    def test_service_that_names_files_of_others(self):
        """What is too old by its state is removed, and that is the attacker's to write."""
        for number in range(3):
            self.add(number, attack.VICTIM)
        shutil.copytree(self.path(f"service.{attack.VICTIM}"), self.path("theirs"))
        for name in (".", *os.listdir(self.path("theirs"))):
            os.chown(self.path(os.path.join("theirs", name)), attack.ATTACKER, attack.ATTACKER)
        before = self.images()
        for command in (("prune", "--keep", "1"), ("add", "-o", "new", "file"), ("merge", "1")):
            done = self.delta(command[0], "--service", "theirs", *command[1:])
            self.assertEqual(errno.EACCES, done.returncode, done.stderr)
            self.assertIn("belongs to user", done.stderr)
            self.assertIn("theirs", done.stderr)
            self.assertEqual(before, self.images())
        # Where the directory is root's, and the state was put there.
        os.chown(self.path("theirs"), 0, 0)
        done = self.delta("prune", "--service", "theirs", "--keep", "1")
        self.assertEqual(errno.EACCES, done.returncode, done.stderr)
        self.assertEqual(before, self.images())
        # The victim's own way goes on.
        done = self.delta("prune", "--service", f"service.{attack.VICTIM}", "--keep", "1",
                          uid=attack.VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(1, len(self.images()))

    def test_service_that_others_may_write(self):
        self.add(0, attack.VICTIM)
        os.chmod(self.path(f"service.{attack.VICTIM}"), 0o777)
        done = self.delta("prune", "--service", f"service.{attack.VICTIM}", "--keep", "1",
                          uid=attack.VICTIM)
        self.assertEqual(errno.EACCES, done.returncode, done.stderr)
        self.assertIn("chmod go-w", done.stderr)

    def test_lock(self):
        """That is never let go, or is a FIFO: whoever reads there does not wait for ever."""
        self.add(0, attack.ATTACKER)
        service = f"service.{attack.ATTACKER}"
        os.chmod(self.path(service), 0o755)
        lock = self.path(os.path.join(service, "lock"))
        with open(lock, "r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = self.delta("list", "--service", service, timeout=PATIENCE)
        self.assertEqual(errno.EBUSY, done.returncode, done.stdout + done.stderr)
        self.assertIn(f"user nobody ({attack.ATTACKER}), has been at work there", done.stderr)
        os.unlink(lock)
        os.mkfifo(lock)
        done = self.delta("list", "--service", service, timeout=PATIENCE)
        self.assertEqual(errno.EINVAL, done.returncode, done.stdout + done.stderr)
        self.assertIn("is no file", done.stderr)

    def test_setuid_file(self):
        """Its contents are the attacker's; with root's rights they must not run."""
        self.add(0, attack.ATTACKER, mode=0o4755)
        os.chmod(self.path(f"service.{attack.ATTACKER}"), 0o755)
        os.chmod(self.path(f"image.{attack.ATTACKER}.0"), 0o444)
        done = self.delta("restore", f"image.{attack.ATTACKER}.0", "-o", "back")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(0o755, os.stat(self.path("back")).st_mode & 0o7777)
        # Root's own comes back as it was.
        self.add(0, 0, mode=0o4755)
        done = self.delta("restore", "image.0.0", "-o", "own")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(0o4755, os.stat(self.path("own")).st_mode & 0o7777)


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
