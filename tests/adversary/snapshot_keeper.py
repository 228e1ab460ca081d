#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker has made the directory to which automatic checkpoints are to go."""
import os
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402


class Keeper(case.Case):
    """Paths are relative to a directory in which everybody may make files, as /tmp is."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o1777)

    def make(self, name, uid, mode):
        os.mkdir(self.path(name))
        os.chown(self.path(name), uid, uid)
        os.chmod(self.path(name), mode)

    def run_under(self, directory, *more):
        return self.run_command("cr_run", "--interval", "1h", "--into", directory, *more,
                                "/bin/echo", "ran", **attack.user(attack.VICTIM))

    def assert_refused(self, said, *words):
        done = self.run_under(*words)
        self.assertNotEqual(0, done.returncode)
        self.assertEqual("", done.stdout)
        self.assertIn(said, done.stderr)
        self.assertIn("theirs", done.stderr)

    def test_directory_of_another_user(self):
        self.make("theirs", attack.ATTACKER, 0o777)
        os.symlink("../victims", self.path("theirs/keeper.log"))
        self.assert_refused("belongs to user", "theirs")
        self.assert_refused("belongs to user", "mine", "--second", "theirs")
        self.assertEqual(["keeper.log"], os.listdir(self.path("theirs")))

    def test_directory_that_others_may_write(self):
        self.make("theirs", attack.VICTIM, 0o777)
        self.assert_refused("chmod go-w", "theirs")
        os.chmod(self.path("theirs"), 0o755)
        done = self.run_under("theirs")
        self.assertEqual((0, "ran\n"), (done.returncode, done.stdout), done.stderr)


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
