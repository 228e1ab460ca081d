#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--rehearse of cr_checkpoint and cr_restart: brought back to be looked at, beside the program."""
import contextlib
import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import unittest

import case

# A program with much that a restart would put back, and a rehearsal must leave alone.
BUSY = """
import fcntl, mmap, os, signal, socket, threading, time
os.umask(0o077)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
os.kill(os.getpid(), signal.SIGUSR2)
log = open("log", "a")
log.write("saved"); log.flush()
locked = open("locked", "w+"); locked.write("x" * 5000); locked.flush()
fcntl.lockf(locked, fcntl.LOCK_EX)
mapped = mmap.mmap(locked.fileno(), 4096)
os.mkfifo("fifo")
fifo = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
os.write(fifo, b"waits")
gone = open("gone", "w+"); gone.write("nameless"); gone.flush(); os.unlink("gone")
unix = socket.socket(socket.AF_UNIX); unix.bind("unix"); unix.listen()
datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); datagrams.bind("datagrams")
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); sender.bind("sender")
sender.sendto(b"waits", "datagrams")
tcp = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(tcp.getsockname()); server = tcp.accept()[0]
client.sendall(b"on its way")
reader, writer = os.pipe(); os.write(writer, b"in a pipe")
signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
if os.fork() == 0:
    signal.pause()
"""
# What it still has: a line each.
STILL = ("print(os.read(fifo, 9), datagrams.recv(9), server.recv(99), os.read(reader, 99), "
         "log.tell(), flush=True)")
AS_IT_WAS = "b'waits' b'waits' b'on its way' b'in a pipe' 5\n"

# A mutex in a file that is mapped, whose owner is said to have died when the kernel thinks so.
ROBUST = """
import ctypes, mmap
libc = ctypes.CDLL(None)
file = open("mutex", "w+b"); file.write(bytes(4096)); file.flush()
memory = mmap.mmap(file.fileno(), 4096)
mutex = (ctypes.c_char * 40).from_buffer(memory)
kind = ctypes.create_string_buffer(64)
libc.pthread_mutexattr_init(kind); libc.pthread_mutexattr_setpshared(kind, 1)
libc.pthread_mutexattr_setrobust(kind, 1)
libc.pthread_mutex_init(mutex, kind); libc.pthread_mutex_lock(mutex)
"""


def without(number, *words):
    """The words of a command to which this system call is done by nobody, and succeeds."""
    def one(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)
    rules = (one(0x20, 0, 0, 0) + one(0x15, 0, 1, number) + one(0x06, 0, 0, 0x00050000)
             + one(0x06, 0, 0, 0x7fff0000))
    code = (f"import ctypes, os, sys\nrules = {rules!r}\nlibc = ctypes.CDLL(None)\n"
            "class All(ctypes.Structure):\n"
            "    _fields_ = [('count', ctypes.c_ushort), ('rules', ctypes.c_char_p)]\n"
            "assert libc.prctl(38, 1, 0, 0, 0) == 0\n"
            "assert libc.prctl(22, 2, ctypes.byref(All(4, rules)), 0, 0) == 0\n"
            "os.execv(sys.argv[1], sys.argv[1:])\n")
    return ["/usr/bin/python3", "-S", "-c", code, *words]


UMASK = 95


class Rehearsal(case.Case):
    def contents(self):
        """Of the directory: everything that somebody could have changed."""
        found = {}
        for name in self.files():
            now = os.lstat(self.path(name))
            what = b""
            if os.path.isfile(self.path(name)):
                with open(self.path(name), "rb") as file:
                    what = file.read()
            found[name] = (now.st_ino, now.st_mode, now.st_size, now.st_nlink, now.st_mtime_ns,
                           what)
        return found

    def run_without(self, number, name, *words, **how):
        return subprocess.run(without(number, case.command(name), *map(str, words)),
                              cwd=self.directory, check=False, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=case.PATIENCE, **how)

    def assert_nothing_left(self):
        """No process of a rehearsal is there any more, neither the command nor what it brought back."""
        own = os.readlink("/proc/self/ns/pid")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                place = os.readlink(f"/proc/{pid}/cwd")
                apart = os.readlink(f"/proc/{pid}/ns/pid") != own
            except OSError:
                continue
            self.assertFalse((apart or b"--rehearse" in words) and place == self.directory, words)

    def test_nothing_is_changed(self):
        program = self.start(BUSY, STILL)
        before = self.contents()
        self.save("--rehearse", "-f", "image", program.pid)
        done = self.run_command("cr_restart", "--rehearse", "image")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("2 processes", done.stdout)
        image = self.contents().pop("image")
        self.assertEqual(before, {name: what for name, what in self.contents().items()
                                  if name != "image"})
        self.assertEqual(0o100400, image[1])
        self.assert_nothing_left()
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(os.path.join(self.directory, "unix"))
        program.stdin.write("there\n")
        program.stdin.flush()
        self.assertEqual(["echo there\n", AS_IT_WAS],
                         [program.stdout.readline(), program.stdout.readline()])

    def test_file_that_has_grown_is_not_cut(self):
        program = self.start("log = open('log', 'a'); log.write('saved'); log.flush()",
                             "log.write(' and more'); log.flush()")
        self.save("--save-all", "-f", "image", program.pid)
        self.assert_alive(program)
        self.assert_alive(program)
        before = self.contents()
        done = self.run_command("cr_restart", "--rehearse", "image")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(before, self.contents())

    def test_mutex_in_a_file_keeps_its_owner(self):
        program = self.start(ROBUST)
        with open(self.path("mutex"), "rb") as file:
            before = file.read()
        self.assertEqual(program.pid, struct.unpack_from("I", before)[0])
        self.save("--rehearse", "-f", "image", program.pid)
        with open(self.path("mutex"), "rb") as file:
            self.assertEqual(before, file.read())

    def test_signal_comes_after_it(self):
        for where in (("-f", "image"), ("-d", "images")):
            program = self.start(BUSY if where[0] == "-d" else "", start_new_session=True)
            done = self.save("--rehearse", "--term", "-v", *where, program.pid)
            self.assertIn("rehearsed: it comes back as it was saved (", done.stderr)
            self.assertEqual(-signal.SIGTERM, program.wait(case.PATIENCE))
            self.end(program)
        self.assert_good("image")

    def test_wrong_one_is_not_kept(self):
        program = self.start("import os; os.umask(0o077)")
        for where in (("-f", "image"), ("-d", "images")):
            self.save(*where, program.pid)
        before = self.contents()
        for where in (("-f", "image"), ("-d", "images"), ("-f", "other"),
                      ("--backup", "-f", "image")):
            done = self.run_without(UMASK, "cr_checkpoint", "--rehearse", "--term", *where,
                                    program.pid)
            self.assertEqual(errno.ENOTRECOVERABLE, done.returncode, done.stderr)
            self.assertIn(f"{where[-1]} is not kept: ", done.stderr)
            self.assertIn("the umask is 22, and 77 in the image", done.stderr)
            self.assert_alive(program)
            self.assertEqual(before, self.contents())
        self.assert_nothing_left()
        done = self.run_without(UMASK, "cr_restart", "--rehearse", "--json", "image")
        self.assertEqual(errno.ENOTRECOVERABLE, json.loads(done.stdout)["error"]["code"])

    def test_wrong_one_is_not_kept_for_a_caller_that_ignores_ends(self):
        program = self.start("import os; os.umask(0o077)")
        done = self.run_without(
            UMASK, "cr_checkpoint", "--rehearse", "--kill", "-f", "image", program.pid,
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(errno.ENOTRECOVERABLE, done.returncode, done.stderr)
        self.assert_alive(program)
        self.assertEqual([], self.files())

    def test_what_has_changed_is_told(self):
        program = self.start("kept = open('kept', 'w+'); kept.write('12345'); kept.flush()\n"
                             "import ctypes; ctypes.CDLL('./library.so')"
                             if self.copy_library() else "")
        self.save("-f", "image", program.pid)
        for name, change in (("kept", lambda path: os.truncate(path, 3)), ("kept", os.unlink),
                             ("library.so", os.unlink)):
            change(self.path(name))
            done = self.run_command("cr_restart", "--rehearse", "image")
            self.assertNotEqual(0, done.returncode)
            self.assertIn(name, done.stderr)
            with open(self.path("kept"), "wb") as file:
                file.write(b"12345")
        self.assert_alive(program)

    def copy_library(self):
        with open("/usr/lib/x86_64-linux-gnu/libz.so.1", "rb") as file:
            library = file.read()
        with open(self.path("library.so"), "wb") as file:
            return file.write(library)

    def test_what_cannot_be_rehearsed(self):
        program = self.start()
        self.save("-f", "image", program.pid)
        for words in (("--no-restore-pid",), ("--term",), ("--backend=kmod",)):
            done = self.run_command("cr_restart", "--rehearse", *words, "image")
            self.assertEqual(255, done.returncode, done.stderr)
            self.assertIn("--rehearse", done.stderr)
        for words in (("-F", "1"), ("--backend=self",)):
            self.assertIn("--rehearse", self.refuse(errno.EINVAL, "--rehearse", *words,
                                                    program.pid))
        self.assert_alive(program)

    @unittest.skipIf(ctypes.sizeof(ctypes.c_void_p) != 8, "the numbers of system calls")
    def test_what_the_kernel_does_not_do_is_found(self):
        program = self.start("file = open('file', 'w+'); file.write('12345'); file.flush()\n"
                             "import os; os.nice(5)")
        self.save("-f", "image", program.pid)
        lseek, setpriority = 8, 141
        for number, what in ((lseek, "pos is 0, and 5"), (setpriority, "nice value is 0, and 5")):
            done = self.run_without(number, "cr_restart", "--rehearse", "image")
            self.assertEqual(errno.ENOTRECOVERABLE, done.returncode, done.stderr)
            self.assertIn(what, done.stderr)

    def checkpointer_whose_restart_stands_still(self):
        """A cr_checkpoint beside a cr_restart that stops before it has done anything."""
        place = self.path("beside")
        os.mkdir(place)
        shutil.copy(case.command("cr_checkpoint"), place)
        with open(f"{place}/cr_restart", "w", encoding="utf-8") as script:
            script.write(f'#!/bin/sh\nkill -STOP $$\nexec {case.command("cr_restart")} "$@"\n')
        os.chmod(script.name, 0o755)
        return f"{place}/cr_checkpoint", place

    def rehearsing(self, saver):
        """Whether the cr_restart that SAVER has started has stopped."""
        for child in case.processes.children(saver.pid):
            with contextlib.suppress(OSError):  # another one, which has ended
                with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as stat:
                    if " (cr_restart) T " in stat.read():
                        return True
        self.assertIsNone(saver.poll(), "the rehearsal is over already")
        return False

    def test_of_which_nothing_is_heard(self):
        """The program goes on, is not ended, and nothing is published."""
        program = self.start("import os\nmemory = bytearray(os.urandom(1 << 20)) * 50")
        checkpointer, place = self.checkpointer_whose_restart_stands_still()
        libraries = os.path.join(os.path.dirname(case.BIN), "lib", "cryo")
        for words in ([], ["--kill"], ["--snapshot=stop", "--term"]):
            saver = self.spawn(checkpointer, "--rehearse", "--stall", "1", *words,
                               "-f", "image", program.pid, stderr=subprocess.PIPE,
                               env={**os.environ, "CRYO_LIBDIR": libraries})
            case.wait_until("the rehearsal", lambda s=saver: self.rehearsing(s))
            self.assert_alive(program)
            _, said = saver.communicate(timeout=case.PATIENCE)
            self.assertNotEqual(0, saver.returncode, said)
            self.assertIn("has made no progress for 6 s", said)
            self.assert_alive(program)
            self.assertEqual([os.path.basename(place)], self.files())


if __name__ == "__main__":
    case.main()
