#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory that goes from the program into the image's file with one copy (--snapshot=stop, with the
module): what comes back, and what is said where it cannot be done. The images lie in memory."""
import errno
import os
import shutil
import subprocess
import tempfile

import case

# Memory of all kinds, and what is to be in it.
SETUP = """
import ctypes, hashlib, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
def address(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))
def protect(memory, how):
    if libc.mprotect(ctypes.c_void_p(address(memory)), len(memory), how):
        raise OSError(ctypes.get_errno())
scattered = mmap.mmap(-1, 24 << 20, flags=PRIVATE)
for page in range(0, len(scattered) // 4096, 3):
    scattered[page * 4096 + page % 4096] = page % 251 + 1
whole = mmap.mmap(-1, 9 << 20, flags=PRIVATE)
whole[:] = b"".join(i.to_bytes(8, "little") for i in range(len(whole) // 8))
zeros = mmap.mmap(-1, 16 << 20, flags=PRIVATE)
zeros[:] = bytes(len(zeros))
huge = mmap.mmap(-1, 8 << 20, flags=PRIVATE)
huge.madvise(14)
huge[:] = whole[:len(huge)][::-1]
hidden = mmap.mmap(-1, 1 << 20, flags=PRIVATE)
hidden[:] = whole[:len(hidden)]
protect(hidden, 0)
with open("mapped", "wb+") as file:
    file.write(b"file" * 100000)
    file.flush()
    mapped = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
mapped[5000:5004] = b"copy"
shared = mmap.mmap(-1, 3 << 20)
shared[100:106] = b"shared"
def digest():
    protect(hidden, 3)
    found = hashlib.sha256()
    for memory in (scattered, whole, zeros, huge, hidden, mapped, shared):
        found.update(memory)
    protect(hidden, 0)
    return found.hexdigest()
"""
EACH = "print(digest(), flush=True)"

# Memory that is never at rest: who finds another number in it than was put there a round ago has got
# pages of another moment.
WALK = """
import threading
memory = bytearray(64 << 20)
found = [0, 0]
def walk():
    number = 0
    while True:
        for at in range(0, len(memory), 4096):
            found[memory[at] != number] += 1
            memory[at] = (number + 1) % 251
        number = (number + 1) % 251
threading.Thread(target=walk, daemon=True).start()
"""


class Placing(case.Case):
    def setUp(self):
        super().setUp()
        self.memory = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.memory)
        self.image = os.path.join(self.memory, "image")
        self.backend = ["--backend=kmod"]

    def digest(self, program, word):
        self.assert_alive(program, word)
        return program.stdout.readline()

    def place(self, program, *words):
        said = self.save("-v", "--snapshot=stop", *self.backend, *words, program.pid)
        said = said.stdout + said.stderr
        self.assertIn("copied into the image while it stood still", said)
        # Neither its checksums nor the disk are waited for.
        self.assertLess(said.index("the program goes on"), said.index("memory written"), said)

    def test_comes_back(self):
        program = self.start(SETUP, EACH)
        expected = self.digest(program, "before")
        for number in range(3):
            self.place(program, "--clobber", "-f", self.image)
            self.assert_good(self.image)
            self.assertEqual(expected, self.digest(program, "there"))
            self.end(program)
            program = self.restart("-q", self.image)
            self.assertEqual(expected, self.digest(program, f"back{number}"))
        # Pages of zeros are in the file, and need no memory.
        now = os.stat(self.image)
        self.assertLess(now.st_blocks * 512, now.st_size - (15 << 20))
        self.end(program)

    def test_is_of_one_moment(self):
        program = self.start(WALK, "print(*found, flush=True)")
        for number in range(4):
            self.place(program, "--clobber", "-f", self.image)
            for walker in (program, self.restart("-q", self.image)):
                now = begun = self.digest(walker, f"image {number}").split()
                while int(now[0]) < int(begun[0]) + 2 * (64 << 20) // 4096:
                    now = self.digest(walker, "each page is to be looked at again").split()
                self.assertEqual("0", now[1])
            self.end(program)
            program = walker
        self.end(program)

    def begin(self, program):
        """A checkpoint that is about to place pages, or does so already."""
        saver = self.spawn(case.command("cr_checkpoint"), "-v", "--snapshot=stop", *self.backend,
                           "-f", self.image, program.pid, stderr=subprocess.PIPE)
        while "described" not in saver.stderr.readline():
            self.assertIsNone(saver.poll())
        return saver

    def test_killed(self):
        """Who saves, or is saved: the other one is not, and there is no half of an image."""
        program = self.start("memory = bytearray(i % 251 for i in range(4096)) * (192 << 8)")
        saver = self.begin(program)
        saver.kill()
        saver.wait()
        self.assert_alive(program)
        self.assertEqual([], os.listdir(self.memory))
        saver = self.begin(program)
        program.kill()
        self.assertRegex(saver.communicate(timeout=case.PATIENCE)[1],
                         rf"process {program.pid} (has )?ended")
        self.assertNotEqual(0, saver.returncode)
        for phase in ("stopped", "described"):
            self.said_of_ended(self.start("memory = bytearray(b'x' * (64 << 20))"), phase,
                               "--snapshot=stop", *self.backend, "-f", self.image)
        self.assertEqual([], os.listdir(self.memory))

    def save_where(self, megabytes, program, then=""):
        """Where there is room for so much. Who may mount in a namespace of users may not save what is
        outside of it."""
        if os.geteuid() != 0:
            self.skipTest("mounts")
        os.mkdir(self.path("small"))
        script = (f'mount -t tmpfs -o size={megabytes}m none small || exit 99\n'
                  '"$@"; code=$?; ls -A small; ' + then + 'exit $code')
        return subprocess.run(["unshare", "-m", "sh", "-c", script, case.command("cr_inspect"),
                               case.command("cr_checkpoint"), "-q", "--snapshot=stop", *self.backend,
                               "-f", "small/image", str(program.pid)],
                              cwd=self.directory, capture_output=True, text=True, check=False,
                              timeout=case.PATIENCE)

    def test_no_room(self):
        """As without: there is none for what it has."""
        program = self.start(SETUP, EACH)
        done = self.save_where(8, program)
        self.assertEqual((errno.ENOSPC, ""), (done.returncode, done.stdout), done.stderr)
        self.assertIn("small/image", done.stderr)
        self.assert_alive(program)

    def test_room_for_all_but_zeros(self):
        """They are left out where they would be too many."""
        program = self.start("memory = bytearray(48 << 20)\nmemory[:] = bytes(48 << 20)\n", "pass")
        done = self.save_where(32, program, '"$0" --verify small/image >/dev/null || exit; ')
        self.assertEqual((0, "image\n"), (done.returncode, done.stdout), done.stderr)
        self.assert_alive(program)


if __name__ == "__main__":
    case.main()
