#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images that have the contents of files need them no more: --save-exe, --save-private,
--save-shared, --save-all. So do those of JVMs, whose counters are always saved."""
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile

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
CHILD_HAS_TABLE = """
import mmap, os, signal
told, tell = os.pipe()
if os.fork() == 0:
    null = os.open('/dev/null', os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    fd = os.open('table', os.O_RDONLY)
    memory = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    os.write(tell, b'x')
    while True:
        signal.pause()
os.read(told, 1)
"""
# As a JVM does: no descriptor is left, and both names are gone when it ends.
COUNTERS = """
import mmap, os, signal
def share(name):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, bytes(32768))
    memory = mmap.mmap(fd, 32768)
    os.closerange(fd, fd + 2)  # and the copy that mmap has made
    return memory
name = {name!r}
os.makedirs(os.path.dirname(name), 0o755, exist_ok=True)
counters = share(name)
other = share('other')
def end(*_):
    os.unlink(name)
    os.rmdir(os.path.dirname(name))
    os._exit(0)
signal.signal(signal.SIGTERM, end)
"""
COUNT = "counters[0] += 1; print(counters[0], flush=True)"


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

    def test_directory_that_is_gone(self):
        """One that was private is so again, whatever the mode of the file."""
        self.addCleanup(os.umask, os.umask(0o022))
        os.mkdir(self.path("private"), 0o700)
        program = self.start("file = open('private/file', 'w+'); file.write('12345'); file.flush()",
                             "print(file.tell(), flush=True)")
        self.save("--nosync", "--save-files", "-f", "image", program.pid)
        self.end(program)
        shutil.rmtree(self.path("private"))
        restarted = self.restart("-q", "image")
        self.assertEqual("5\n", self.ask(restarted))
        self.assertEqual(0o700, os.stat(self.path("private")).st_mode & 0o777)
        self.assertEqual(b"12345", self.contents("private/file"))

    def left_by_killed_restart(self, image):
        """It cannot say that all files are open, as nobody reads what it has said before."""
        before = set(self.files())
        end, its_end = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        fcntl.fcntl(its_end, fcntl.F_SETPIPE_SZ, 4096)
        restart = self.restart("-v", image, stderr=its_end)
        os.close(its_end)
        while b"backend" not in os.read(end, 4096):
            pass
        case.wait_until("its file", lambda: set(self.files()) - before)
        self.assertIsNone(restart.poll())
        restart.kill()
        restart.wait(case.PATIENCE)
        os.close(end)
        return set(self.files()) - before

    def test_what_a_killed_restart_has_left(self):
        """The next one removes it, whether it replaces the file or writes into it."""
        program = self.start("file = open('file', 'w+'); file.write('12345'); file.flush()",
                             "print(file.tell(), flush=True)")
        self.save("--nosync", "--save-files", "-f", "image", program.pid)
        self.end(program)
        for is_there in (False, True):
            if is_there:
                with open(self.path("file"), "r+", encoding="ascii") as file:
                    file.write("abc")
            else:
                os.unlink(self.path("file"))
            left = self.left_by_killed_restart("image")
            self.assertEqual(1, len(left), left)
            self.assertRegex(left.pop(), r"^file\.cryo\.[0-9a-f]{8}\.[0-9A-Za-z]{6}$")
            restarted = self.restart("-q", "image")
            self.assertEqual("5\n", self.ask(restarted))
            self.end(restarted)
            self.assertEqual(b"12345", self.contents("file"))
            self.assertEqual(["file", "image"], self.files())

    def refused_without(self, name, program, *options):
        """What a restart says once this file is gone."""
        self.save("--nosync", *options, "-f", "image", program.pid)
        self.end(program)
        os.unlink(self.path(name))
        done = self.run_command("cr_restart", "image")
        self.assertEqual(errno.ENOENT, done.returncode, done.stderr)
        self.assertIn(f"{self.path(name)}: ", done.stderr)
        return done.stderr

    def test_shared_file_that_is_needed(self):
        self.refused_without("second", self.start(SHARING, TOUCH))

    def test_mapped_file_that_is_needed(self):
        """The program has it by no descriptor."""
        program = self.start("import mmap, os\nfd = os.open('table', os.O_RDWR | os.O_CREAT)\n"
                             "os.ftruncate(fd, 4096)\nmemory = mmap.mmap(fd, 4096)\n"
                             "os.closerange(fd, fd + 2)")
        self.assertIn("--save-shared", self.refused_without("table", program))

    def test_file_that_is_only_read(self):
        """No option saves it."""
        with open(self.path("table"), "wb") as file:
            file.write(bytes(4096))
        program = self.start("import mmap, os\nfd = os.open('table', os.O_RDONLY)\n"
                             "memory = mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ)\n"
                             "os.closerange(fd, fd + 2)")
        said = self.refused_without("table", program, "--save-shared")
        self.assertIn("put it back", said)
        self.assertNotIn("--save-shared", said)

    def test_changed_file_that_only_a_child_has_mapped(self):
        """Only its image says what the file was: the first process's was complete before."""
        with open(self.path("table"), "wb") as file:
            file.write(b"a" * 8192)
        program = self.start(CHILD_HAS_TABLE)
        self.save("--nosync", "-f", "image", program.pid)
        self.end(program)
        self.assert_good("image")
        with open(self.path("table"), "wb") as file:
            file.write(b"b" * 8192)
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(errno.EINVAL, done.returncode, done.stderr)
        self.assertIn(f"file {self.path('table')} has other contents", done.stderr)


class CountersOfJvms(case.Case):
    def setUp(self):
        super().setUp()
        self.counters = tempfile.mkdtemp(prefix="hsperfdata_cryo.", dir="/tmp")
        self.addCleanup(shutil.rmtree, self.counters, ignore_errors=True)
        os.rmdir(self.counters)
        self.name = os.path.join(self.counters, "4711")
        self.addCleanup(os.umask, os.umask(0o022))

    def count(self, program):
        self.assert_alive(program)
        return int(program.stdout.readline())

    def save_and_end(self, *words):
        program = self.start(COUNTERS.format(name=self.name), COUNT)
        self.assertEqual(1, self.count(program))
        self.save("--nosync", "--term", *words, "-f", "image", program.pid)
        self.assertEqual(0, program.wait(case.PATIENCE))
        self.assertFalse(os.path.exists(self.counters))

    def refused(self, code, *words):
        done = self.run_command("cr_restart", "image")
        self.assertEqual(code, done.returncode, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_nameless(self, why):
        """A restart says why, and makes no file there; what it has restarted can be saved again."""
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said)
        self.assertEqual(2, self.count(restarted))
        notice = (f"{why}; the counters of a JVM have no name now, and jps does not show that "
                  "JVM\n")

        def is_said():
            with open(self.path("said"), encoding="utf-8") as said:
                return notice in said.read()
        case.wait_until("the notice", is_said)
        pid = case.processes.children(restarted.pid)[0]
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            self.assertNotIn(self.counters, maps.read())
        self.save("--nosync", "-f", "again", pid)
        self.end(restarted)
        restarted = self.restart("-q", "again")
        self.assertEqual(3, self.count(restarted))
        self.end(restarted)

    def test_they_are_there_again(self):
        self.save_and_end()
        restarted = self.restart("-q", "image")
        self.assertEqual(2, self.count(restarted))
        self.assertEqual(0o755, os.stat(self.counters).st_mode & 0o7777)
        self.assertEqual(["4711"], os.listdir(self.counters))
        self.assertEqual(0o600, os.stat(self.name).st_mode & 0o7777)
        with open(self.name, "rb") as file:
            self.assertEqual(b"\2" + bytes(32767), file.read())
        os.kill(case.processes.children(restarted.pid)[0], signal.SIGTERM)
        self.assertEqual(0, restarted.wait(case.PATIENCE))
        self.assertFalse(os.path.exists(self.counters))

    def test_directory_that_is_there(self):
        self.save_and_end()
        os.mkdir(self.counters)
        with open(self.name, "wb") as file:
            file.write(b"\7" * 32768)  # of a JVM that had the id meanwhile
        restarted = self.restart("-q", "image")
        self.assertEqual(2, self.count(restarted))
        with open(self.name, "rb") as file:
            self.assertEqual(b"\2" + bytes(32767), file.read())

    def test_beside_the_one_that_goes_on(self):
        program = self.start(COUNTERS.format(name=self.name), COUNT)
        self.assertEqual(1, self.count(program))
        self.save("--nosync", "-f", "image", program.pid)
        self.assertEqual(2, self.count(program))
        restarted = self.restart("-q", "image")
        self.assertEqual(2, self.count(restarted))
        self.assertEqual(3, self.count(program))
        self.assertEqual(3, self.count(restarted))

    def test_nothing_is_left_of_a_restart_that_fails(self):
        self.save_and_end()
        os.unlink(self.path("other"))
        self.refused(errno.ENOENT, self.path("other"), "cr_checkpoint --save-shared")
        self.assertFalse(os.path.exists(self.counters))

    def test_link_in_its_place(self):
        self.save_and_end()
        os.mkdir(self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), self.counters)
        self.addCleanup(os.unlink, self.counters)
        self.assert_nameless(f"file {self.name} is not as it was saved, and cannot be written "
                             "back: Not a directory")
        self.assertEqual([], os.listdir(self.path("elsewhere")))

    def test_file_in_its_place(self):
        self.save_and_end()
        with open(self.counters, "wb"):
            self.addCleanup(os.unlink, self.counters)
        self.assert_nameless(f"file {self.name} is not as it was saved, and cannot be written "
                             "back: Not a directory")
        self.assertEqual(0, os.stat(self.counters).st_size)

    def test_directory_that_others_may_write(self):
        self.save_and_end()
        os.mkdir(self.counters)
        os.chmod(self.counters, 0o1777)
        self.assert_nameless(f"others may write in the directory {self.counters} (mode 1777)")
        self.assertEqual([], os.listdir(self.counters))

    def test_directory_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root makes one")
        self.save_and_end()
        os.mkdir(self.counters)
        os.chown(self.counters, 4711, -1)
        self.assert_nameless(f"directory {self.counters} belongs to user 4711")
        self.assertEqual([], os.listdir(self.counters))

    def test_copy_in_the_directory_of_another_user(self):
        """What it has is not looked at."""
        self.save_and_end()
        self.make_foreign()
        as_saved = b"\1" + bytes(32767)
        with open(self.name, "wb") as file:
            file.write(as_saved)
        self.assert_nameless(f"directory {self.counters} belongs to user 4711")
        with open(self.name, "rb") as file:
            self.assertEqual(as_saved, file.read())

    def make_foreign(self):
        """What a user has there whose counters another one's program reads."""
        if os.geteuid() != 0:
            self.skipTest("only root makes one")
        os.mkdir(self.counters)
        with open(self.name, "wb"):
            pass
        for path in (self.counters, self.name):
            os.chown(path, 4711, -1)

    def test_those_of_another_user(self):
        self.make_foreign()
        self.save_and_end()
        self.refused(errno.ENOENT, self.name)
        self.assertFalse(os.path.exists(self.counters))

    def test_directory_of_the_former_owner(self):
        self.make_foreign()
        self.save_and_end("--save-shared")
        os.mkdir(self.counters)
        os.chown(self.counters, 4711, -1)
        self.assert_nameless(f"directory {self.counters} belongs to user 4711")
        self.assertEqual([], os.listdir(self.counters))


case.main()
