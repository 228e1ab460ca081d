#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that have the contents of files need them no more: --save-exe, --save-private,
--save-shared, --save-all."""
import errno
import os
import shutil
import subprocess

import case

# A script that leaves a trace when it is run.
SCRIPT = "#!/bin/sh\ntouch ran\n"
# Each writes into a file of its own, the child's not mapped by the first process.
SHARING = """
import mmap, os
def share(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o640)
    os.write(fd, b'a' * 10000)
    memory = mmap.mmap(fd, 10000)
    os.close(fd)
    memory[0] = ord('b')
    return memory
name = 'first'
ask, answer = os.pipe()
told, tell = os.pipe()
if os.fork() == 0:
    os.close(tell)
    null = os.open('/dev/null', os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    memory = share('second')
    os.write(answer, b'x')
    while os.read(told, 1):
        memory[1] = ord('c')
        os.write(answer, memory[:3])
    os._exit(0)
os.close(told)
os.read(ask, 1)
memory = share(name)
"""
TOUCH = ("memory[1] = ord('c'); os.write(tell, b'x'); "
         "print(memory[:3].decode(), os.read(ask, 3).decode(), flush=True)")


class SavedFiles(case.Case):
    def shell(self):
        """A copy of the shell, of which the image is to have all."""
        shutil.copy("/bin/sh", self.path("shell"))
        program = self.spawn(case.command("cr_run"), self.path("shell"), "-c",
                             "echo ready; while read line; do echo echo $line; done")
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def test_program_that_is_gone(self):
        for option in ("--save-exe", "--save-private", "--save-all"):
            program = self.shell()
            self.save("--nosync", option, "-f", "image", program.pid)
            self.end(program)
            os.unlink(self.path("shell"))
            self.assert_good("image")
            with open(self.path("shell"), "wb"):
                pass  # nothing that could be executed
            self.assert_good("image")
            os.unlink(self.path("shell"))

    def test_another_program_there_is_not_run(self):
        program = self.shell()
        self.save("--nosync", "--save-exe", "-f", "image", program.pid)
        self.end(program)
        os.unlink(self.path("shell"))
        with open(self.path("shell"), "w", encoding="ascii") as file:
            file.write(SCRIPT)
        os.chmod(self.path("shell"), 0o755)
        restarted = self.restart("image", stderr=subprocess.PIPE)
        self.assert_alive(restarted)
        exe = os.readlink(f"/proc/{case.processes.children(restarted.pid)[0]}/exe")
        self.assertEqual(os.path.realpath(case.command("cr_restart")), exe)
        # The restarted program can be saved again, and that image brought back.
        pid = case.processes.children(restarted.pid)[0]
        self.save("--nosync", "-f", "again", pid)
        self.end(restarted)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assert_good("again")

    def test_program_that_is_needed(self):
        program = self.shell()
        self.save("--nosync", "--save-shared", "-f", "image", program.pid)
        self.end(program)
        os.unlink(self.path("shell"))
        done = self.run_command("cr_restart", "image")
        self.assertEqual(errno.EINVAL, done.returncode, done.stderr)
        self.assertIn(f"{self.path('shell')} is not there", done.stderr)

    def ask(self, program):
        program.stdin.write("now\n")
        program.stdin.flush()
        self.assertEqual("echo now\n", program.stdout.readline())
        return program.stdout.readline()

    def contents(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_shared_files_that_are_gone(self):
        for option in ("--save-shared", "--save-all"):
            program = self.start(SHARING, TOUCH)
            self.save("--nosync", option, "-f", "image", program.pid)
            self.end(program)
            for name in ("first", "second"):
                os.unlink(self.path(name))
            restarted = self.restart("-q", "image")
            self.assertEqual("bca bca\n", self.ask(restarted))
            self.end(restarted)
            for name in ("first", "second"):
                self.assertEqual(b"bc" + b"a" * 9998, self.contents(name))
                self.assertEqual(0o640, os.stat(self.path(name)).st_mode & 0o777)

    def test_shared_files_that_are_rolled_back(self):
        program = self.start(SHARING, TOUCH)
        self.save("--nosync", "--save-shared", "-f", "image", program.pid)
        self.assertEqual("bca bca\n", self.ask(program))
        self.end(program)
        restarted = self.restart("-q", "image")
        case.wait_until("the contents of before", lambda: all(
            self.contents(name)[:3] == b"baa" for name in ("first", "second")))
        self.assertEqual("bca bca\n", self.ask(restarted))
        self.end(restarted)


case.main()
