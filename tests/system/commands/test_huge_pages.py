#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shared huge pages (hugetlb) where too few are free at the restart. By root, who sets them aside."""
import errno
import mmap
import subprocess

import case

NUMBER = "/proc/sys/vm/nr_hugepages"
SETUP = """
import mmap, os
def map(fd, flags): return mmap.mmap(fd, 2 << 20, flags=flags)
"""
ANONYMOUS = SETUP + f"m = map(-1, {mmap.MAP_SHARED | 0x40000})\nm[5:10] = b'hello'\n"
FILE = SETUP + """
fd = os.memfd_create('pages', os.MFD_HUGETLB)
os.ftruncate(fd, 2 << 20)
m = map(fd, mmap.MAP_SHARED)
m[5:10] = b'hello'
"""


def set_aside(number):
    with open(NUMBER, "r+", encoding="ascii") as file:
        before = file.read()
        file.seek(0)
        file.write(str(number))
    return int(before)


def number_free():
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", encoding="ascii") as file:
        return int(file.read())


class HugePages(case.Case):
    def setUp(self):
        super().setUp()
        self.before = set_aside(4)

    def tearDown(self):
        super().tearDown()
        set_aside(self.before)

    def saved(self, setup):
        program = self.start(setup, each="sys.stdout.write(m[5:10].decode() + '\\n'); sys.stdout.flush()")
        self.save("-f", "image", program.pid)
        self.end(program)

    def test_anonymous_memory_consists_of_ordinary_pages_then(self):
        self.saved(ANONYMOUS)
        set_aside(0)
        back = self.restart("image", stderr=subprocess.PIPE)
        self.assert_alive(back)
        self.assertEqual("hello\n", back.stdout.readline())
        _, said = back.communicate(timeout=case.PATIENCE)
        self.assertIn("2 MiB of shared memory consisted of huge pages of 2048 KiB (hugetlb), of "
                      "which 0 are free here", said)

    def test_a_descriptor_shows_it_and_is_refused(self):
        self.saved(FILE)
        set_aside(0)
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("1 huge pages of 2048 KiB (hugetlb) are needed, of which 0 are free here",
                      done.stderr)
        set_aside(1)
        back = self.restart("-q", "image")
        self.assert_alive(back)
        self.assertEqual("hello\n", back.stdout.readline())

    def test_a_file_without_a_reservation_takes_no_more_than_it_has(self):
        setup = SETUP + f"""
fd = os.memfd_create('pages', os.MFD_HUGETLB)
os.ftruncate(fd, 16 << 20)
m = mmap.mmap(fd, 16 << 20, flags={mmap.MAP_SHARED | 0x4000})
m[5:10] = b'hello'
"""
        self.saved(setup)
        back = self.restart("-q", "image")  # of its 8 pages 4 are there
        self.assert_alive(back)
        self.assertEqual("hello\n", back.stdout.readline())

    def test_what_would_come_into_being_by_being_read_is_refused(self):
        setup = FILE.replace("mmap.MAP_SHARED", str(mmap.MAP_SHARED | 0x4000))
        program = self.start(setup, each="pass")
        self.save("-f", "image", program.pid)  # by its descriptor, which shows the holes
        # The mapping's object has a descriptor of its own.
        program = self.start(setup + "os.closerange(3, 64)\n")
        self.assertIn("without a reservation", self.refuse(errno.EOPNOTSUPP, program.pid))
        self.assert_alive(program)

    def test_processes_of_a_tree_share_what_is_free(self):
        """The child ends with its parent."""
        setup = SETUP + f"""
m = mmap.mmap(-1, 6 << 20, flags={mmap.MAP_PRIVATE | 0x40000})
m[5:10] = b'hello'
m[2 << 20] = m[4 << 20] = 1
its, end = os.pipe()
if os.fork() == 0:
    os.close(end)
    os.read(its, 1)
    os._exit(0)
"""
        program = self.start(setup, each="sys.stdout.write(m[5:10].decode() + '\\n'); sys.stdout.flush()")
        self.save("--tree", "-f", "image", program.pid)
        self.end(program)
        case.wait_until("the end of both", lambda: number_free() == 4)
        back = self.restart("image", stderr=subprocess.PIPE)
        self.assert_alive(back)
        self.assertEqual("hello\n", back.stdout.readline())
        _, said = back.communicate(timeout=case.PATIENCE)
        self.assertIn("6 MiB of memory consisted of huge pages of 2048 KiB (hugetlb), of which 1 are "
                      "free here", said)


if __name__ == "__main__":
    case.main()
