#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""By what a program is frozen: what is asked for, what is chosen, and what is done where no copy of
the program can be made, because its user may have no more processes."""
import errno
import json
import os
import resource

import case

# Memory that the word on a line changes; the answer tells whether it is as it should be.
CHANGING = """
import mmap
memory = mmap.mmap(-1, 48 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
expected = {}
def change(number):
    for page in range(number % 7, len(memory) // 4096, 7):
        memory[page * 4096] = expected[page] = number % 251
def is_right():
    return all(memory[page * 4096] == value for page, value in expected.items())
change(1)
"""
EACH = "change(len(line)); print('right' if is_right() else 'wrong', flush=True)"
MAKE_CHILD = """
import os
if os.fork() == 0:
    import time
    while True: time.sleep(3600)
"""


class Methods(case.Case):
    def forbid(self, pid):
        """A copy, as a batch system's limits may."""
        before = resource.prlimit(pid, resource.RLIMIT_NPROC)
        resource.prlimit(pid, resource.RLIMIT_NPROC, (1, before[1]))
        self.addCleanup(lambda: case.state(pid) == "g" or
                        resource.prlimit(pid, resource.RLIMIT_NPROC, before))

    def method(self, *words):
        return json.loads(self.save("--json", *words).stdout.splitlines()[-1])["snapshot"]

    def about(self, image):
        shown = json.loads(self.run_command("cr_inspect", "--json", image).stdout)
        return shown["snapshots"][0]["images"][0]["records"]["image_info"][0]

    def change(self, program, word):
        self.assert_alive(program, word)
        self.assertEqual("right\n", program.stdout.readline())

    def assert_right(self, image):
        restarted = self.restart("-q", image)
        self.change(restarted, "afterwards")
        self.end(restarted)

    def test_what_is_asked_for(self):
        program = self.start()
        for word, done in (("auto", "fork"), ("fork", "fork"), ("staged", "fork"), ("stop", "stop")):
            self.assertEqual(done, self.method(f"--snapshot={word}", "-f", word, program.pid))
            # Every image tells the length of the stop, which is a part of the whole time.
            about = self.about(word)
            self.assertLess(0, about["stopped_ns"], about)
            self.assertLess(about["stopped_ns"], about["total_ns"], about)
        self.end(program)
        for image in ("auto", "fork", "staged", "stop"):
            self.assert_good(image)

    def test_no_copy_can_be_made(self):
        program = self.start(CHANGING, EACH)
        self.forbid(program.pid)
        said = self.save("-v", "-f", "image", program.pid)
        said = said.stdout + said.stderr
        self.assertIn("read while it stood still, because no copy could be made", said)
        self.assertIn("Resource temporarily unavailable", said)
        self.assertNotIn("once more", said)
        # The program stands still while its memory is read, not until the disk has it.
        self.assertLess(said.index("the program goes on"), said.index("committed"), said)
        self.assertEqual("stop", self.method("-f", "image2", program.pid))
        self.change(program, "there")
        self.end(program)
        for image in ("image", "image2"):
            self.assert_right(image)

    def test_it_was_asked_for(self):
        program = self.start()
        self.forbid(program.pid)
        said = self.refuse(errno.EAGAIN, "--snapshot=fork", "-f", "image", program.pid)
        self.assertIn("without that option the program stands still while it is read", said)
        self.assertEqual([], self.files())
        self.assert_alive(program)
        self.save("-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")

    def test_deltas(self):
        program = self.start(CHANGING, EACH)
        self.save("--delta=incremental", "-f", "v0", program.pid)
        self.change(program, "a")
        self.save("--delta=incremental", "-f", "v1", "--base", "v0", program.pid)
        self.forbid(program.pid)
        for number in range(2, 6):
            # Twice by reading it, and twice by copying what has changed, in turns.
            self.change(program, "b" * number)
            room = "--stage-memory=0" if number % 2 == 0 else "--stage-memory=64M"
            said = self.save("-v", "--delta=incremental", room, "-f", f"v{number}", "--base",
                             f"v{number - 1}", program.pid)
            said = said.stdout + said.stderr
            self.assertNotIn("once more", said)
            if "found by userfaultfd" in said:
                self.assertNotIn(" 0 pages not read", said)
        self.change(program, "audited")
        done = self.checkpoint("-v", "--delta=incremental", "-f", "v6", "--base", "v5", program.pid,
                               env=dict(os.environ, CRYO_AUDIT="1"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        for number in range(7):
            self.assert_right(f"v{number}")

    def test_one_of_a_tree(self):
        program = self.start(MAKE_CHILD + CHANGING, EACH)
        self.forbid(program.pid)
        said = self.save("-v", "--tree", "-f", "image", program.pid)
        said = said.stdout + said.stderr
        self.assertEqual(2, said.count("read while it stood still"), said)
        self.assertIn("because another process of the tree is", said)
        self.change(program, "there")
        self.end(program)
        self.assert_right("image")


if __name__ == "__main__":
    case.main(plain_user=True)
