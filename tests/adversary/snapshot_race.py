#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An attacker exchanges the victim's image, or a file that the victim's program has mapped, for one of
their own, again and again, while the victim restarts: in a directory in which everybody may rename
everything."""
import ctypes
import os
import signal
import sys

import attack

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system",
                                "commands"))
import case  # noqa: E402

AT_FDCWD, RENAME_EXCHANGE = -100, 2
ROUNDS = 60


def exchange_for_ever(one, other):
    os.setgroups([])
    os.setresgid(*[attack.ATTACKER] * 3)
    os.setresuid(*[attack.ATTACKER] * 3)
    libc = ctypes.CDLL(None)
    while libc.renameat2(AT_FDCWD, one.encode(), AT_FDCWD, other.encode(), RENAME_EXCHANGE) == 0:
        pass
    os._exit(1)


def come_and_go_for_ever(one, other):
    os.setgroups([])
    os.setresgid(*[attack.ATTACKER] * 3)
    os.setresuid(*[attack.ATTACKER] * 3)
    while True:
        os.rename(one, other)
        os.rename(other, one)


class Race(case.Case):
    def image_that_says(self, name, word):
        program = self.start(each=f"print({word!r}, flush=True)", **attack.user(attack.VICTIM))
        done = self.checkpoint("-f", name, program.pid, **attack.user(attack.VICTIM))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)

    def race(self, good, bad, image):
        """How often the victim's was restarted, and how often it was refused."""
        attacker = os.fork()
        if attacker == 0:
            exchange_for_ever(self.path(good), self.path(bad))
        codes = []
        try:
            for _ in range(ROUNDS):
                done = self.run_command("cr_restart", "-q", "--no-restore-pid", image, stdin=None,
                                        input="there\n", **attack.user(attack.VICTIM))
                self.assertNotIn("attacker", done.stdout)
                codes.append(done.returncode)
        finally:
            os.kill(attacker, signal.SIGKILL)
            os.waitpid(attacker, 0)
        self.assertIn(0, codes)
        self.assertTrue(set(codes) - {0}, "the race was never lost: it tests nothing")

    def test_file(self):
        os.chmod(self.directory, 0o777)
        self.image_that_says("image", "victim")
        self.image_that_says("other", "attacker")
        os.chown(self.path("other"), attack.ATTACKER, attack.ATTACKER)
        os.chmod(self.path("other"), 0o444)
        self.race("image", "other", "image")

    def test_directory(self):
        os.chmod(self.directory, 0o777)
        for name, word in (("mine", "victim"), ("theirs", "attacker")):
            os.mkdir(self.path(name))
            os.chown(self.path(name), attack.VICTIM, attack.VICTIM)
            self.image_that_says(os.path.join(name, "image"), word)
        for path in (self.path("theirs"), self.path("theirs/image")):
            os.chown(path, attack.ATTACKER, attack.ATTACKER)
            os.chmod(path, 0o555)
        self.race("mine", "theirs", os.path.join("mine", "image"))

    def test_mapped_file(self):
        """It is mapped as it was when it was looked at, or not at all."""
        os.chmod(self.directory, 0o777)
        for name, word, owner in (("mine", "victim's", attack.VICTIM),
                                  ("theirs", "attacker", attack.ATTACKER)):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(word * 512)
            os.chown(self.path(name), owner, owner)
            os.utime(self.path(name), (0, 0))
        program = self.start("""
import mmap
with open("mine", "rb") as file:
    memory = mmap.mmap(file.fileno(), 4096, mmap.MAP_SHARED, mmap.PROT_READ)
""", each="print(memory[:8].decode(), flush=True)", **attack.user(attack.VICTIM))
        done = self.checkpoint("-f", "image", program.pid, **attack.user(attack.VICTIM))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        self.race("mine", "theirs", "image")

    def test_fifo(self):
        """The attacker's comes and goes, and nobody writes into it."""
        os.chmod(self.directory, 0o777)
        program = self.start("""
import os
os.mkfifo("fifo")
file = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
""", each="os.write(file, b'for friends')", **attack.user(attack.VICTIM))
        done = self.checkpoint("-f", "image", program.pid, **attack.user(attack.VICTIM))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        os.unlink(self.path("fifo"))
        os.mkfifo(self.path("theirs"))
        os.chown(self.path("theirs"), attack.ATTACKER, attack.ATTACKER)
        os.chmod(self.path("theirs"), 0o666)
        hears = os.open(self.path("theirs"), os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, hears)
        attacker = os.fork()
        if attacker == 0:
            come_and_go_for_ever(self.path("theirs"), self.path("fifo"))
        try:
            for _ in range(ROUNDS):
                self.run_command("cr_restart", "-q", "--no-restore-pid", "image", stdin=None,
                                 input="there\n", **attack.user(attack.VICTIM))
        finally:
            os.kill(attacker, signal.SIGKILL)
            os.waitpid(attacker, 0)
        self.assertRaises(BlockingIOError, os.read, hears, 100)


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
