#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that have as many descriptors as their limit allows, and commands that are allowed fewer
than they need: nothing fails for a soft limit."""
import errno
import os
import re
import resource
import socket
import subprocess
import unittest

import case

OPENS = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
files = []
while len(files) < {count}:
    try:
        files.append(os.open("/etc/passwd", os.O_RDONLY))
    except OSError:
        break
    os.lseek(files[-1], len(files), os.SEEK_SET)
"""
WHAT_IS_OPEN = """print(len(files), all(os.lseek(fd, 0, os.SEEK_CUR) == i + 1 for i, fd in enumerate(files)),
        *resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)"""
ANY_NUMBER = 1 << 20
# A tree of processes, which end when the first one does.
FAMILY = """
import os
end, never = os.pipe()
for _ in range(30):
    if os.fork() == 0:
        for number in (0, 1, 2):
            os.close(number)
        os.close(never)
        os.read(end, 1)
        os._exit(0)
"""


def may_raise_limits():
    return bool(int(case.status("self", "CapEff"), 16) >> 24 & 1)


class DescriptorLimits(case.Case):
    def start_with(self, count, soft, hard):
        return self.start(OPENS.format(count=count, soft=soft, hard=hard), each=WHAT_IS_OPEN,
                          preexec_fn=case.descriptor_limits(soft, hard))

    def how_it_is(self, program):
        self.assert_alive(program)
        return program.stdout.readline()

    def save_and_end(self, image, program, **where):
        done = self.checkpoint("--nosync", "--kill", "-f", image, program.pid, **where)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)

    def only_child(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            return int(children.read())

    def test_soft_limit_of_the_commands(self):
        program = self.start_with(1000, 1024, 4096)
        said = self.how_it_is(program)
        self.assertEqual("1000 True 1024 4096\n", said)
        self.save_and_end("image", program, preexec_fn=case.descriptor_limits(256, 4096))
        restarted = self.restart("-q", "image", preexec_fn=case.descriptor_limits(256, 4096))
        self.assertEqual(said, self.how_it_is(restarted))

    def test_as_many_as_the_soft_limit_allows(self):
        """There is no number left for the agent, nor for what a restart opens at its end."""
        program = self.start_with(ANY_NUMBER, 30, 4096)
        said = self.how_it_is(program)
        self.save_and_end("first", program)
        restarted = self.restart("-q", "first")
        self.assertEqual(said, self.how_it_is(restarted))
        # The restarted program listens again.
        self.save("--nosync", "--kill", "-f", "second", self.only_child(restarted.pid))
        self.end(restarted)
        restarted = self.restart("-q", "second")
        self.assertEqual(said, self.how_it_is(restarted))

    def test_as_many_as_the_hard_limit_allows(self):
        program = self.start_with(ANY_NUMBER, 30, 30)
        said = self.refuse(errno.EBUSY, "-f", "image", program.pid)
        self.assertIn(f"prlimit --pid {program.pid} --nofile=:34", said)
        self.assertEqual([], self.files())
        self.assert_alive(program)
        program.stdout.readline()
        if may_raise_limits():
            resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (30, 34))
            self.save("--nosync", "-f", "image", program.pid)

    def door(self, pid):
        for number in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{number}"
            if f"cryo.{pid}." in os.path.basename(os.readlink(path)):
                return path
        self.fail("it has no door")

    def test_caller_that_there_is_no_room_for(self):
        """The agent hangs up, and the program goes on."""
        program = self.start_with(ANY_NUMBER, 30, 30)
        for _ in range(3):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
                caller.settimeout(case.PATIENCE)
                caller.connect(self.door(program.pid))
                with self.assertRaises(ConnectionResetError):
                    caller.recv(1)
            self.assert_alive(program)
            program.stdout.readline()

    def refused_restart(self, prepare):
        done = self.run_command("cr_restart", "--no-restore-pid", "image", preexec_fn=prepare)
        self.assertEqual(errno.EMFILE, done.returncode, done.stderr)
        return done.stderr

    def test_hard_limit_of_a_restart(self):
        """It says how many it needs, and with so many it does what it should."""
        program = self.start_with(600, 1024, 1024)
        said = self.how_it_is(program)
        self.save_and_end("image", program)
        refused = self.refused_restart(case.descriptor_limits(1024, 1024))
        needed = int(re.search(r"ulimit -Hn\) to (\d+)", refused).group(1))
        restarted = self.restart("-q", "image", preexec_fn=case.descriptor_limits(256, needed))
        self.assertEqual(said, self.how_it_is(restarted))

    def test_hard_limit_of_a_tree(self):
        program = self.start(FAMILY)
        self.save_and_end("image", program)
        self.assertIn("ulimit -Hn", self.refused_restart(case.descriptor_limits(128, 128)))

    def test_inotify_instances(self):
        program = self.start("import ctypes; assert ctypes.CDLL(None).inotify_init1(0) >= 0")
        self.save_and_end("image", program)
        shell = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\""
        unshare = ["unshare", "--user", "--map-root-user", "sh", "-c", shell, "sh"]
        done = subprocess.run([*unshare, case.command("cr_restart"), "--no-restore-pid", "image"],
                              cwd=self.directory, check=False, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=case.PATIENCE)
        self.assertEqual(errno.EMFILE, done.returncode, done.stderr)
        self.assertIn("fs.inotify.max_user_instances", done.stderr)

    @unittest.skipUnless(may_raise_limits(), "needs the right to raise limits")
    def test_hard_limit_of_a_privileged_user(self):
        program = self.start_with(600, 1024, 1024)
        said = self.how_it_is(program)

        def low():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        self.save_and_end("image", program, preexec_fn=low)
        restarted = self.restart("-q", "image", preexec_fn=low)
        self.assertEqual(said, self.how_it_is(restarted))


case.main()
