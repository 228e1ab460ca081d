#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The victim's program had files open where everybody may make some. They are gone (/tmp, after a
reboot), and an attacker has put something else where they were, before the victim restarts."""
import errno
import os
import shutil
import socket
import stat
import sys
import unittest

import attack
import lost
from lost import PATIENCE, SECRET, THIRD, VICTIM, case


class Files(lost.LostFiles):
    WRITES = """
file = open("log", "w")
file.write("one"); file.flush()
def each():
    file.write("two"); file.flush()
"""
    MAPS = """
import mmap
file = open("data", "w+b")
file.write(b"a" * 4096); file.flush()
memory = mmap.mmap(file.fileno(), 4096)
file.close()
def each():
    memory[0:3] = b"two"
"""
    READS = """
import os
os.mkfifo("fifo")
file = os.open("fifo", os.O_RDWR)
def each():
    pass
"""
    LISTS = """
import os
os.mkdir("place")
file = os.open("place", os.O_RDONLY | os.O_DIRECTORY)
def each():
    os.close(os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=file))
"""

    # What is opened later, below it or through it, is chosen by whoever has its name.
    LOOKS = LISTS.replace("O_RDONLY", "O_PATH")
    NAMES = """
import os
os.symlink("own/secret", "link")
file = os.open("link", os.O_PATH | os.O_NOFOLLOW)
def each():
    assert os.readlink("", dir_fd=file) == "own/secret"
"""
    DROPS = """
import os
file = os.open("device", os.O_RDWR)
def each():
    assert os.write(file, b"two") == 3 and os.read(file, 1) == b""
"""

    def test_file_of_the_attackers(self):
        """What the program writes is not for the attacker to read."""
        path = self.save_and_lose(self.WRITES, "log")

        def put():
            with open(path, "w", encoding="ascii") as file:
                file.write("one and more")
            os.chmod(path, 0o666)
        self.as_attacker(put)
        self.assertIn(f"--owner {attack.ATTACKER}", self.assert_refused())
        self.assertEqual(0, self.restart_it("--owner", str(attack.ATTACKER)).returncode)

    def test_link_to_the_victims_own(self):
        """The program would write into it."""
        path = self.save_and_lose(self.WRITES, "log")
        self.as_attacker(lambda: os.symlink(os.path.join(self.own, "secret"), path))
        self.assertIn("a link on the way to it belongs to user", self.assert_refused())

    def test_link_on_the_way(self):
        path = self.save_and_lose(self.LISTS, "place")
        self.as_attacker(lambda: os.symlink(self.own, path))
        self.assertIn("a link on the way to it belongs to user", self.assert_refused())
        self.assertEqual(["secret"], os.listdir(self.own))

    def test_path_only(self):
        """O_PATH opens nothing, but what it leads to is opened later."""
        path = self.save_and_lose(self.LOOKS, "place")
        self.as_attacker(lambda: os.mkdir(path) or os.chmod(path, 0o777))
        self.assertIn(f"--owner {attack.ATTACKER}", self.assert_refused())
        self.assertEqual([], os.listdir(path))
        os.rmdir(path)
        self.as_attacker(lambda: os.symlink(self.own, path))
        self.assertIn("a link on the way to it belongs to user", self.assert_refused())
        self.assertEqual(["secret"], os.listdir(self.own))

    def test_path_only_of_a_link(self):
        path = self.save_and_lose(self.NAMES, "link")
        self.as_attacker(lambda: os.symlink("own/secret", path))
        self.assertIn("it belongs to user", self.assert_refused())
        os.lchown(path, attack.VICTIM, attack.VICTIM)
        self.assertEqual(0, self.restart_it().returncode)
        os.unlink(path)
        with open(path, "w", encoding="ascii"):
            os.chown(path, attack.VICTIM, attack.VICTIM)
        self.assertIn("is no longer a symlink", self.assert_refused(errno.EINVAL))

    def make_device(self, number):
        try:
            os.mknod(self.path("device"), stat.S_IFCHR | 0o666, os.makedev(1, number))
            os.chmod(self.path("device"), 0o666)
            with open(self.path("device"), "rb"):
                pass
        except PermissionError as why:
            self.skipTest(f"no devices can be made here: {why}")

    def test_device(self):
        """Opening a device may be an order to it."""
        self.make_device(3)
        path = self.save_and_lose(self.DROPS, "device")
        self.as_attacker(lambda: os.symlink("/dev/zero", path))
        self.assertIn("a link on the way to it belongs to user", self.assert_refused())
        os.unlink(path)
        self.make_device(5)
        self.assert_refused(errno.ENODEV)
        os.unlink(path)
        # Only root makes devices; in containers their owner may be unknown.
        self.make_device(3)
        os.chown(path, THIRD, THIRD)
        self.assertEqual(0, self.restart_it().returncode)

    def test_link_of_the_former_owner(self):
        """It was that user's file, and so must be what a link of that user's leads to."""
        with open(self.path("log"), "wb"):
            pass
        os.chown(self.path("log"), THIRD, THIRD)
        os.chmod(self.path("log"), 0o666)
        path = self.save_and_lose(self.WRITES, "log")
        os.symlink(os.path.join(self.own, "secret"), path)
        os.lchown(path, THIRD, THIRD)
        self.assertIn(f"--owner {THIRD}", self.assert_refused())
        os.unlink(path)
        # The file has moved to another disk.
        with open(self.path("moved"), "wb") as file:
            file.write(b"one")
        os.chown(self.path("moved"), THIRD, THIRD)
        os.chmod(self.path("moved"), 0o666)
        os.symlink("moved", path)
        os.lchown(path, THIRD, THIRD)
        self.assertEqual(0, self.restart_it().returncode)

    def test_link_of_the_victims(self):
        """Of its own it may make use: the file has moved to another disk."""
        path = self.save_and_lose(self.WRITES, "log")
        os.symlink(os.path.join(self.own, "secret"), path)
        os.chown(path, attack.VICTIM, attack.VICTIM, follow_symlinks=False)
        self.assertEqual(0, self.restart_it().returncode)
        with open(os.path.join(self.own, "secret"), encoding="ascii") as file:
            self.assertEqual("thetwo", file.read())  # as long as it was

    def test_fifo(self):
        """Opening one waits for its other end."""
        path = self.save_and_lose(self.WRITES, "log")
        self.as_attacker(lambda: os.mkfifo(path, 0o666) or os.chmod(path, 0o666))
        self.assert_refused()

    def test_fifo_where_contents_were_saved(self):
        """It is compared with them, and then replaced."""
        path = self.save_and_lose(self.WRITES, "log", "--save-files")
        self.as_attacker(lambda: os.mkfifo(path, 0o666) or os.chmod(path, 0o666))
        self.restart_it()  # ends
        with open(os.path.join(self.own, "secret"), encoding="ascii") as file:
            self.assertEqual(SECRET, file.read())

    def test_fifo_notices_no_comparison(self):
        """Whoever waits at its other end goes on once it is opened."""
        path = self.save_and_lose(self.WRITES, "log", "--save-files")
        os.mkfifo(path)
        os.chown(path, attack.ATTACKER, attack.ATTACKER)
        os.chmod(path, 0o666)
        os.link(path, self.path("kept"))  # the victim's file comes to its place
        waiter = os.fork()
        if waiter == 0:
            os.close(os.open(path, os.O_WRONLY))
            os._exit(0)
        try:
            def is_waiting():
                with open(f"/proc/{waiter}/syscall", encoding="ascii") as call:
                    return call.read().startswith("257 ")  # openat
            case.wait_until("it waits for a reader", is_waiting)
            self.restart_it()
            self.assertIsNone(os.waitid(os.P_PID, waiter,
                                        os.WEXITED | os.WNOHANG | os.WNOWAIT))
        finally:
            os.close(os.open(self.path("kept"), os.O_RDONLY | os.O_NONBLOCK))
            os.waitpid(waiter, 0)

    def test_directory(self):
        path = self.save_and_lose(self.WRITES, "log")
        self.as_attacker(lambda: os.mkdir(path))
        self.assert_refused()

    def test_socket(self):
        path = self.save_and_lose(self.WRITES, "log")
        with socket.socket(socket.AF_UNIX) as listener:
            self.as_attacker(lambda: listener.bind(path))
            self.assert_refused()

    def test_shared_memory(self):
        path = self.save_and_lose(self.MAPS, "data")

        def put():
            with open(path, "wb") as file:
                file.write(b"b" * 8192)
            os.chmod(path, 0o666)
        self.as_attacker(put)
        self.assert_refused()
        os.unlink(path)
        self.as_attacker(lambda: os.symlink(os.path.join(self.own, "secret"), path))
        self.assert_refused()

    def test_fifo_of_the_attackers(self):
        """The program would say there what others are not to hear."""
        path = self.save_and_lose(self.READS, "fifo")
        self.as_attacker(lambda: os.mkfifo(path) or os.chmod(path, 0o666))
        self.assert_refused()

    def test_library(self):
        """Code with the same build id, and something else in it: it would run as the victim."""
        library = self.path("libx.so")
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = [line.split()[-1] for line in maps if line.rstrip().endswith(".so.6")]
        shutil.copy(found[0], library)
        os.chown(library, attack.VICTIM, attack.VICTIM)
        path = self.save_and_lose(f"""
import ctypes
library = ctypes.CDLL({library!r})
def each():
    pass
""", "libx.so")
        self.as_attacker(lambda: shutil.copy(found[0], path))
        self.assert_refused()

    def test_program(self):
        """The image has every page of it; it is executed all the same, to have its name."""
        own = self.path("python")
        shutil.copy(os.path.realpath(sys.executable), own)
        path = self.save_and_lose("def each(): pass\n", "python", "--save-all", python=own)
        self.as_attacker(lambda: shutil.copy("/bin/true", path))
        done = self.restart_it()
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("python is not executed", done.stderr)

    def test_directory_of_libraries(self):
        """The dynamic linker would take any library from there, not only those that were."""
        place = self.path("lib")
        os.mkdir(place)
        os.chown(place, attack.VICTIM, attack.VICTIM)
        path = self.save_and_lose("def each(): pass\n", "lib", "--save-all",
                                  env={**os.environ, "LD_LIBRARY_PATH": place})

        def put():
            os.mkdir(path)
            with open(os.path.join(path, "libc.so.6"), "w", encoding="ascii") as file:
                file.write("what the attacker likes")
        self.as_attacker(put)
        done = self.restart_it()
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("a directory of the library path is not used", done.stderr)

    def test_directory_of_libraries_of_a_third_user(self):
        """Whose library the program had: it is not left out, neither by a link of that user's."""
        os.makedirs(self.path("sw/1"))
        library = self.path("sw/1/libx.so")
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = [line.split()[-1] for line in maps if line.rstrip().endswith(".so.6")]
        shutil.copy(found[0], library)
        os.symlink("1", self.path("sw/current"))
        for name in ("sw", "sw/1", "sw/1/libx.so", "sw/current"):
            os.lchown(self.path(name), THIRD, THIRD)
        program = self.start(f"import ctypes\nlibrary = ctypes.CDLL({library!r})\n", each="pass",
                             env={**os.environ, "LD_LIBRARY_PATH": self.path("sw/current/")}, **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        done = self.restart_it()
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("library path", done.stderr)

    def test_image_that_is_a_fifo(self):
        self.as_attacker(lambda: os.mkfifo(self.path("image")))
        os.chmod(self.path("image"), 0o666)
        done = self.restart_it()
        self.assertEqual(errno.ESPIPE, done.returncode, done.stderr)


@unittest.skipUnless(lost.has_user_namespaces(), "user namespaces are not allowed here")
class FilesInNamespace(Files):
    """Where all other owners look alike."""

    ids = "--pidns"

    def test_image_of_somebody_else(self):
        """As whom all other owners show in there: nobody."""
        program = self.start(each="pass", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        os.chmod(self.path("image"), 0o644)
        done = self.restart_it(**attack.user(attack.ATTACKER))
        self.assertEqual(errno.EACCES, done.returncode, done.stderr)
        self.assertIn("belongs to user", done.stderr)


class Names(case.Case):
    """The victim saves where everybody may make files, and the attacker knows under which name."""

    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o1777)
        self.precious = self.path("precious")
        with open(self.precious, "w", encoding="ascii") as file:
            file.write(SECRET)
        os.chown(self.precious, attack.VICTIM, attack.VICTIM)
        os.chmod(self.precious, 0o600)

    def save_over(self, name, *words):
        """The checkpoint ends, the program goes on, what is the victim's is as it was."""
        program = self.start(**VICTIM)
        done = self.checkpoint(*words, program.pid, timeout=PATIENCE, **VICTIM)
        self.assert_alive(program)
        self.end(program)
        with open(self.precious, encoding="ascii") as file:
            self.assertEqual(SECRET, file.read())
        if done.returncode != 0:
            self.assertIn(name, done.stderr)
        return done

    def test_link(self):
        os.symlink(self.precious, self.path("image"))
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER, follow_symlinks=False)
        self.assertNotEqual(0, self.save_over("image", "-f", "image").returncode)
        self.assertNotEqual(0, self.save_over("image", "-d", "image").returncode)

    def test_link_of_the_victims(self):
        """The link may be replaced, never what it leads to."""
        os.symlink(self.precious, self.path("image"))
        os.chown(self.path("image"), attack.VICTIM, attack.VICTIM, follow_symlinks=False)
        self.save_over("image", "-f", "image")

    def test_link_that_leads_nowhere(self):
        os.symlink(self.path("nothing"), self.path("image"))
        self.assertNotEqual(0, self.save_over("image", "-f", "image").returncode)
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_fifo(self):
        os.mkfifo(self.path("image"))
        os.chmod(self.path("image"), 0o666)
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER)
        self.assertNotEqual(0, self.save_over("image", "-f", "image").returncode)

    def test_file_of_the_attackers(self):
        """What is saved would be the attacker's to read."""
        with open(self.path("image"), "w", encoding="ascii"):
            pass
        os.chmod(self.path("image"), 0o666)
        os.chown(self.path("image"), attack.ATTACKER, attack.ATTACKER)
        self.assertNotEqual(0, self.save_over("image", "-f", "image").returncode)
        self.assertEqual(0, os.path.getsize(self.path("image")))

    def test_directory_of_the_attackers(self):
        os.mkdir(self.path("tree"), 0o777)
        os.chmod(self.path("tree"), 0o777)
        os.chown(self.path("tree"), attack.ATTACKER, attack.ATTACKER)
        self.assertNotEqual(0, self.save_over("tree", "-d", "tree").returncode)
        self.assertEqual([], os.listdir(self.path("tree")))

    def test_nobody_else_reads_an_image(self):
        """What was in memory is in it."""
        os.umask(0)
        try:
            program = self.start(**VICTIM)
            for words in (("-f", "image"), ("-d", "tree")):
                self.assertEqual(0, self.checkpoint(*words, program.pid, **VICTIM).returncode)
        finally:
            os.umask(0o022)
        for folder, _, names in os.walk(self.directory):
            for name in names:
                self.assertEqual(0, os.lstat(os.path.join(folder, name)).st_mode & 0o077, name)


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
