#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees of more processes than the commands may have files open at first, and programs that have
more memory than cr_restart's own soft limits allow."""
import ctypes
import errno
import resource

import case

COUNT = 150
# Children without a pipe to us; each ends when its parent does.
FAMILY = f"""
import os
ready, mine = os.pipe()
end, never = os.pipe()
for _ in range({COUNT}):
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.write(mine, b"x")
        os.close(never)
        os.read(end, 1)
        os._exit(0)
seen = 0
while seen < {COUNT}:
    seen += len(os.read(ready, {COUNT} - seen))
"""

MIB = 1 << 20
# The limit has been lowered since: below what there is.
LOCKS = f"""
import ctypes, mmap, resource
resource.setrlimit(resource.RLIMIT_MEMLOCK, ({4 * MIB}, {4 * MIB}))
memory = mmap.mmap(-1, {MIB})
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mlock(ctypes.c_void_p(address), {MIB}) == 0
resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, {4 * MIB}))
"""
HOW_LOCKED = """print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmLck")],
        resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], flush=True)"""
RESERVES = f"""
import mmap, resource
memory = mmap.mmap(-1, {8192 * MIB}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ)
resource.setrlimit(resource.RLIMIT_AS, ({16384 * MIB}, resource.RLIM_INFINITY))
"""
HOW_MUCH = "print(len(memory), resource.getrlimit(resource.RLIMIT_AS)[0], flush=True)"


def without_locking_rights():
    """What root may lock is limited, too; softly to less than the program has."""
    drop_from_bounding_set, lock_memory = 24, 14
    ctypes.CDLL(None).prctl(drop_from_bounding_set, lock_memory, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 4 * MIB))


def little_memory():
    resource.setrlimit(resource.RLIMIT_AS, (4096 * MIB, resource.RLIM_INFINITY))


class Limits(case.Case):
    def test_more_than_the_soft_limit(self):
        program = self.start(FAMILY)
        done = self.checkpoint("--nosync", "--json", "--kill", "-f", "image", program.pid,
                               preexec_fn=case.descriptor_limits(128, 4096))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn(f'"processes":{COUNT + 1}', done.stdout)
        self.end(program)
        restarted = self.restart("-q", "image", preexec_fn=case.descriptor_limits(128, 4096))
        self.assert_alive(restarted)

    def test_more_than_the_hard_limit(self):
        program = self.start(FAMILY)
        done = self.checkpoint("-f", "image", program.pid, preexec_fn=case.descriptor_limits(128, 128))
        self.assertEqual(errno.EMFILE, done.returncode, done.stderr)
        self.assertIn("ulimit -n", done.stderr)
        self.assertEqual([], self.files())
        self.assert_alive(program)

    def come_back(self, program, prepare, said):
        """It says this before and after a restart."""
        self.assert_alive(program)
        self.assertEqual(said, program.stdout.readline())
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        restarted = self.restart("-q", "image", preexec_fn=prepare)
        self.assert_alive(restarted)
        self.assertEqual(said, restarted.stdout.readline())

    def test_memory_that_is_locked(self):
        program = self.start(LOCKS, each=HOW_LOCKED, preexec_fn=without_locking_rights)
        self.come_back(program, without_locking_rights, "['1024'] 4096\n")

    def test_addresses(self):
        program = self.start(RESERVES, each=HOW_MUCH)
        self.come_back(program, little_memory, f"{8192 * MIB} {16384 * MIB}\n")


case.main()
