# SPDX-License-Identifier: Apache-2.0
"""For tests of a victim whose program had files where everybody may make some. They are gone (/tmp,
after a reboot), and an attacker has put something else there before the victim restarts.

    class Files(lost.LostFiles):
        def test_fifo(self):
            path = self.save_and_lose("file = open('log', 'w')\ndef each(): pass\n", "log")
            self.as_attacker(lambda: os.mkfifo(path))
            self.assert_refused()
"""
import errno
import os
import shutil
import subprocess
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402

PATIENCE = 10  # seconds, of a command that meets what the attacker has left
SECRET = "the victim's own"
VICTIM = attack.user(attack.VICTIM)
THIRD = 4711  # whose software it is


def has_user_namespaces():
    made = subprocess.run(["unshare", "--user", "--map-current-user", "true"], check=False,
                          stderr=subprocess.DEVNULL, **VICTIM)
    return made.returncode == 0


class LostFiles(case.Case):
    """Paths are relative to a directory in which everybody may make files, as /tmp is; links in it are
    followed by all, as where fs.protected_symlinks is off, or in a directory of the attacker's."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o777)
        # No other user may look into it.
        self.own = self.path("own")
        os.mkdir(self.own, 0o700)
        with open(os.path.join(self.own, "secret"), "w", encoding="ascii") as file:
            file.write(SECRET)
        for path in (self.own, os.path.join(self.own, "secret")):
            os.chown(path, attack.VICTIM, attack.VICTIM)

    def save_and_lose(self, setup, name, *words, **how):
        program = self.start(setup, each="each()", **how, **VICTIM)
        done = self.checkpoint("-f", "image", *words, program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        # The program does come back as long as nobody has done anything.
        self.assertEqual(0, self.restart_it().returncode)
        path = self.path(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return path

    ids = "--no-restore-pid"

    def restart_it(self, *words, **who):
        return self.run_command("cr_restart", self.ids, *words, "image", input="there\n",
                                **{"stdin": None, "timeout": PATIENCE, **VICTIM, **who})

    def assert_refused(self, code=errno.EPERM):
        done = self.restart_it()
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        self.assertNotIn("echo", done.stdout)
        with open(os.path.join(self.own, "secret"), encoding="ascii") as file:
            self.assertEqual(SECRET, file.read())
        return done.stderr

    def as_attacker(self, do):
        """In this process, whose files are then the attacker's."""
        os.setegid(attack.ATTACKER)
        os.seteuid(attack.ATTACKER)
        try:
            do()
        finally:
            os.seteuid(0)
            os.setegid(0)
