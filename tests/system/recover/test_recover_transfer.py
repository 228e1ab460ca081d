#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --recover with recover = "transfer": the newest image is held in memory, and nobody is left.

    test_recover_transfer.py DIRECTORY-OF-COMMANDS
"""
import ctypes
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import unittest

import lab
import processes
from lab import wait_until

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def drop(path):
    """What no process holds of it in memory."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(path):
    """How many of its pages are in memory, and how many there are."""
    size = os.path.getsize(path)
    count = -(-size // mmap.PAGESIZE)
    found = ctypes.create_string_buffer(count)
    with open(path, "rb") as file:
        begin = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
    assert begin != ctypes.c_void_p(-1).value, ctypes.get_errno()
    assert LIBC.mincore(begin, size, found) == 0, ctypes.get_errno()
    assert LIBC.munmap(begin, size) == 0
    return sum(one & 1 for one in found.raw), count


# Much memory, of which it says at the end whether it is as it was.
MEMORY = """
import hashlib, os, time
memory = os.urandom(16 << 20)
before = hashlib.sha256(memory).hexdigest()
open("ready", "w").close()
while not os.path.exists("end"):
    time.sleep(0.005)
print(hashlib.sha256(memory).hexdigest() == before, flush=True)
"""


class Transfer(lab.Case):
    def transfer(self, memory="1GiB", **more):
        supervisor = self.count(recover=self.policy(f'[[fault]]\nrecover = "transfer"\nmemory = "{memory}"\n'),
                                interval="1h", **more)
        self.pid_of(supervisor)
        return supervisor

    @staticmethod
    def holders(supervisor):
        return [pid for pid in processes.children(supervisor.pid) if lab.executable_of(pid) == "cr_run"]

    def await_held(self, supervisor):
        """The newest image: what cr_status says."""
        def held():
            said = self.status(supervisor)
            return said.get("standby") and said["standby"] == self.path("one", self.images()[-1]) and said
        return wait_until("the newest image in memory", held)

    def needs(self, image):
        """It, and what it is based on."""
        done = self.run_status("--images", self.path("one"), "--json")
        all_of_them = [json.loads(line) for line in done.stdout.splitlines()]
        found = next(one for one in all_of_them if one["name"] == os.path.basename(image))
        return [image, *(self.path("one", name) for name in found["based_on"])]

    def assert_held(self, said):
        files = self.needs(said["standby"])
        self.assertEqual(said["standby_bytes"], sum(map(os.path.getsize, files)))
        for path in files:
            drop(path)
            there, pages = resident(path)
            self.assertEqual((path, there), (path, pages))
        return files

    def test_image_stays_in_memory_and_the_program_comes_back(self):
        supervisor = self.transfer()
        self.make_image(supervisor)
        said = self.await_held(supervisor)
        self.assertEqual(said["standby"], said["checkpoint"])
        self.assert_held(said)
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.top], capture_output=True, text=True, check=True).stdout
        if kind.strip() != "tmpfs":  # whose files are in memory in any case
            copy = shutil.copy(said["standby"], self.path("copy"))
            subprocess.run(["sync", copy], check=True)

            def is_gone():
                drop(copy)
                return resident(copy)[0] == 0
            wait_until("that a file which nobody holds is dropped", is_gone)
        self.assertRegex(self.run_status(str(supervisor.pid)).stdout, r"(?m)^in memory +\S+/context\.\d+, ")
        holder, = self.holders(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertIn("; its image was held in memory", self.errors())
        self.assertEqual(self.holders(supervisor), [holder])
        self.assertEqual(self.let_end(supervisor), 0)
        wait_until("its end", lambda: not processes.exists(holder))

    def test_newer_image_takes_its_place(self):
        """With the one that it is based on."""
        supervisor = self.transfer()
        self.make_image(supervisor)
        self.await_held(supervisor)
        before, = self.holders(supervisor)
        self.make_image(supervisor)
        self.assert_held(self.await_held(supervisor))
        wait_until("the end of the one before", lambda: not processes.exists(before))
        self.assertEqual(len(self.holders(supervisor)), 1)
        for recovery in (1, 2):
            os.kill(self.pid_of(supervisor), signal.SIGKILL)
            self.await_recovery(supervisor, recovery)
            self.assertEqual(self.errors().count("; its image was held in memory"), recovery)
            self.make_image(supervisor)
            self.await_held(supervisor)
        supervisor.terminate()
        supervisor.wait(lab.PATIENCE)

    def test_too_little_memory(self):
        """It comes back from the disk, and that is said; why, once."""
        supervisor = self.transfer(memory="4KiB")
        for _ in range(2):
            self.make_image(supervisor)
            wait_until("that it is known", lambda: self.status(supervisor)["checkpoint"] ==
                       self.path("one", self.images()[-1]) and not self.holders(supervisor))
        wait_until("that it is told", lambda: "is not held in memory" in self.errors())
        self.assertRegex(self.errors(), r"context\.000001 is not held in memory, so that a recovery reads it from "
                                        r"where it is: .*, and the policy has memory = 4\.0 KiB\n")
        self.assertEqual(self.errors().count("is not held in memory"), 1)
        self.assertIsNone(self.status(supervisor)["standby"])
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertIn("; its image was not held in memory", self.errors())
        self.assertEqual(self.let_end(supervisor), 0)

    def come_back_lazily(self, memory):
        """Whether the program's memory is mapped from the image, and the supervisor."""
        supervisor = self.python(MEMORY, interval="1h", recover=self.policy(
            f'[[fault]]\nrecover = "transfer"\nmemory = "{memory}"\nlazy = true\n'))
        wait_until("its memory", lambda: os.path.exists(self.path("ready")))
        self.make_image(supervisor)
        wait_until("that it is held, or not", lambda: self.status(supervisor)["standby"] or
                   "is not held in memory" in self.errors())
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        with open(f"/proc/{self.pid_of(supervisor)}/maps", encoding="utf-8") as maps:
            mapped = self.path("one", "context.") in maps.read()
        with open(self.path("end"), "w", encoding="ascii"):
            pass
        self.assertEqual(supervisor.wait(lab.PATIENCE), 0)
        self.assertEqual(self.text("out"), "True\n")
        return mapped

    def test_image_is_mapped_from_memory(self):
        self.assertTrue(self.come_back_lazily("1GiB"))
        self.assertIn("; its image is mapped from memory", self.errors())

    def test_image_that_is_not_in_memory_is_not_mapped(self):
        self.assertFalse(self.come_back_lazily("4KiB"))
        self.assertIn("; its image was not held in memory", self.errors())

    def test_ranks_are_not_mapped(self):
        policy = self.policy('[[fault]]\nrecover = "transfer"\nmemory = "1GiB"\nlazy = true\n')
        done = subprocess.run([lab.tool("cr_run"), policy, "--into", "one", "mpirun", "true"], cwd=self.top,
                              env=self.environment, capture_output=True, text=True, timeout=lab.PATIENCE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("lazy = true: memory of ranks of MPI jobs is read whole", done.stderr)
        self.assertFalse(os.path.exists(self.path("one")))

    def test_what_holds_it_is_killed(self):
        """The program does not notice; the next image is held again."""
        supervisor = self.transfer()
        self.make_image(supervisor)
        self.await_held(supervisor)
        os.kill(self.holders(supervisor)[0], signal.SIGKILL)
        wait_until("that it is told", lambda: "that was to hold it was killed by SIGKILL" in self.errors())
        wait_until("that it is seen", lambda: self.status(supervisor)["standby"] is None)
        self.make_image(supervisor)
        self.await_held(supervisor)
        self.assertEqual(self.let_end(supervisor), 0)

    def test_supervisor_is_killed(self):
        """What holds an image ends with it, and the program goes on."""
        supervisor = self.transfer()
        self.make_image(supervisor)
        self.await_held(supervisor)
        holder, = self.holders(supervisor)
        pid = self.pid_of(supervisor)
        self.others += [pid, *processes.children(supervisor.pid)]
        supervisor.kill()
        supervisor.wait()
        wait_until("its end", lambda: not processes.exists(holder))
        self.assertTrue(processes.exists(pid))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
