#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The victim's program had what is no plain file, or no name: message queues, receivers of datagrams,
unlinked FIFOs and files, files in messages. An attacker has taken the names, or takes them now."""
import ctypes
import errno
import os
import shutil
import socket
import struct
import sys
import tempfile
import threading
import unittest

import attack
import lost
from lost import PATIENCE, SECRET, THIRD, VICTIM, case


def keep_names():
    """From now on unlink(2) does nothing, and there is no O_TMPFILE: by a filter of seccomp."""
    load, equal, has_bits, give = 0x20, 0x15, 0x45, 0x06
    allow, fail = 0x7fff0000, 0x00050000
    code = [(load, 0, 0, 0),  # the number of the call
            (equal, 3, 0, 87),  # unlink
            (equal, 0, 4, 257),  # openat
            (load, 0, 0, 32),  # its flags
            (has_bits, 1, 2, 0x400000),
            (give, 0, 0, fail),
            (give, 0, 0, fail | errno.EOPNOTSUPP),
            (give, 0, 0, allow)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
    given = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
    prctl = ctypes.CDLL(None).prctl
    if prctl(38, 1, 0, 0, 0) != 0 or prctl(22, 2, given, 0, 0) != 0:
        os._exit(99)


class Objects(lost.LostFiles):
    QUEUES = """
import ctypes, os
libc = ctypes.CDLL(None)
queue = libc.mq_open({name!r}, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600, None)
os.fchmod(queue, 0o666)
assert libc.mq_send(queue, b"one", 3, 1) == 0
def each():
    assert libc.mq_receive(queue, ctypes.create_string_buffer(65536), 65536, None) == 3
"""

    def test_queue(self):
        """What was in it, and what is sent to it, is not for the attacker to read."""
        if self.ids == "--pidns":
            self.skipTest("it has queues of its own")
        libc = ctypes.CDLL(None)
        name = f"/cryo.test.{os.getpid()}".encode()
        self.addCleanup(libc.mq_unlink, name)
        program = self.start(self.QUEUES.format(name=name), each="each()", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        self.assertEqual(0, self.restart_it().returncode)  # with the one that is left
        libc.mq_unlink(name)
        self.assertEqual(0, self.restart_it().returncode)
        libc.mq_unlink(name)
        made = []
        self.as_attacker(lambda: made.append(
            libc.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, None)))
        self.addCleanup(os.close, made[0])
        os.fchmod(made[0], 0o666)
        self.assertIn(f"--owner {attack.ATTACKER}", self.assert_refused())
        self.assertIn(b"QSIZE:0 ", os.read(made[0], 100))
        self.assertEqual(0, self.restart_it("--owner", str(attack.ATTACKER)).returncode)

    SENDS = """
import contextlib, socket
file = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
file.connect({name!r})
def each():
    with contextlib.suppress(OSError):
        file.send(b"two")
"""

    def listen(self, path, uid):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(listener.close)
        listener.bind(path)
        os.chown(path, uid, uid)
        os.chmod(path, 0o666)
        return listener

    def heard(self, listener, *words):
        """By the listener of the restarted program; and what the restart said."""
        done = self.restart_it(*words)
        self.assertEqual(0, done.returncode, done.stderr)
        try:
            return listener.recv(10), done.stderr
        except BlockingIOError:
            return b"", done.stderr

    def save_sender(self, name, uid):
        listener = self.listen(name, uid)
        program = self.start(self.SENDS.format(name=name), each="each()", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        self.assertEqual(b"two", self.heard(listener)[0])
        os.unlink(name)

    def test_receiver(self):
        """What is sent to a name is not for the attacker who has taken it."""
        path = self.path("receiver")
        self.save_sender(path, attack.VICTIM)
        listener = self.listen(path, attack.ATTACKER)
        heard, said = self.heard(listener)
        self.assertEqual(b"", heard)
        self.assertIn(f"--owner {attack.ATTACKER} that you trust that user; it is not connected",
                      said)
        self.assertEqual(b"two", self.heard(listener, "--owner", attack.ATTACKER)[0])
        os.unlink(path)
        with self.listen(self.path("elsewhere"), attack.VICTIM) as other:
            self.as_attacker(lambda: os.symlink("elsewhere", path))
            self.assertEqual(b"", self.heard(other)[0])

    def test_receiver_of_a_third_user(self):
        """A service, in a directory in which nobody else may make files."""
        place = tempfile.mkdtemp(prefix="cryo-service.", dir="/run")
        self.addCleanup(shutil.rmtree, place)
        os.chmod(place, 0o755)
        self.save_sender(os.path.join(place, "log"), THIRD)
        self.assertEqual(b"two", self.heard(self.listen(os.path.join(place, "log"), THIRD))[0])

    def test_fifo_without_name(self):
        """It is made again under a name that nobody else can have taken."""
        program = self.start("""
import os
os.mkfifo("fifo")
file = os.open("fifo", os.O_RDWR)
os.unlink("fifo")
os.write(file, b"one")
""", each="assert os.read(file, 9) == b'one'", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        before = self.files()

        def take_names():
            for number in range(20):
                os.mkfifo(self.path(f".cryo.fifo.{os.getpid()}.{number}"))
        self.assertEqual(0, self.restart_it(preexec_fn=take_names).returncode)
        self.assertEqual(before, [name for name in self.files() if "cryo.fifo" not in name])

    def test_contents_where_names_may_be_kept(self):
        """Where there is no O_TMPFILE, a file is made and removed: in a directory of the attacker's it
        may have been renamed in between, as if unlink(2) did nothing."""
        place = self.path("place")
        os.mkdir(place)
        os.chown(place, attack.VICTIM, attack.VICTIM)
        program = self.start("""
import os
file = open("place/file", "w+")
os.unlink("place/file")
os.fchmod(file.fileno(), 0o666)
file.write("not for others"); file.flush()
""", each="assert os.pread(file.fileno(), 99, 0) == b'not for others'", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        os.rmdir(place)
        self.as_attacker(lambda: os.mkdir(place) or os.chmod(place, 0o777))
        done = self.restart_it(preexec_fn=keep_names, env={**os.environ, "TMPDIR": self.own})
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual([0], [os.path.getsize(os.path.join(place, name))
                               for name in os.listdir(place)])
        self.assertEqual(2, len(os.listdir(self.own)))

    # A file that is open in a message only.
    PASSES = """
import fcntl, os, socket
one, two = socket.socketpair()
def send():
    with open("log", "r+b") as file:
        socket.send_fds(one, [b"x"], [file.fileno()])
def each():
    _, (file,), _, _ = socket.recv_fds(two, 1, 1)
    assert os.pwrite(file, b"two", 3) == 3
    os.close(file)
send()
"""
    # ... and which the program reads, too, by a descriptor that it has, under a lock.
    LOCKS = PASSES + """
reader = open("log", "rb")
fcntl.lockf(reader, fcntl.LOCK_SH)
pass_on = each
def each():
    if os.fork() == 0:
        with open("log", "r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
    pass_on()
"""

    def save_file_of_the_third(self, setup):
        """Its directory is that user's, too."""
        log = self.path("log")
        with open(log, "wb") as file:
            file.write(b"one")
        os.chown(log, THIRD, THIRD)
        os.chmod(log, 0o666)
        program = self.start(setup, each="each()", **VICTIM)
        done = self.checkpoint("-f", "image", program.pid, **VICTIM)
        self.assertEqual(0, done.returncode, done.stderr)
        self.end(program)
        with open(log, "ab") as file:
            file.write(b" and more")
        return log

    def test_cut_of_a_file_in_a_message(self):
        for setup in (self.PASSES, self.LOCKS):
            log = self.save_file_of_the_third(setup)
            done = self.restart_it()
            self.assertEqual(0, done.returncode, done.stderr)
            with open(log, "rb") as file:
                self.assertEqual(b"onetwo", file.read())

    def test_link_after_the_look(self):
        """At the end the file is cut that was found at the beginning."""
        log = self.save_file_of_the_third(self.PASSES)
        os.link(log, self.path("kept"))
        os.symlink(os.path.join(self.own, "secret"), self.path("link"))
        os.lchown(self.path("link"), THIRD, THIRD)
        opened, libc = 0x20, ctypes.CDLL(None)  # IN_OPEN
        watch = libc.inotify_init1(os.O_CLOEXEC)
        self.addCleanup(os.close, watch)
        self.assertLessEqual(0, libc.inotify_add_watch(watch, log.encode(), opened))

        def exchange():
            os.read(watch, 4096)
            os.rename(self.path("link"), log)
        third = threading.Thread(target=exchange)
        third.start()
        done = self.restart_it()
        third.join(PATIENCE)
        self.assertEqual(0, done.returncode, done.stderr)
        with open(os.path.join(self.own, "secret"), encoding="ascii") as file:
            self.assertEqual(SECRET, file.read())
        with open(self.path("kept"), "rb") as file:
            self.assertEqual(b"onetwo", file.read())


@unittest.skipUnless(lost.has_user_namespaces(), "user namespaces are not allowed here")
class ObjectsInNamespace(Objects):
    """Where all other owners look alike."""

    ids = "--pidns"


if __name__ == "__main__":
    attack.needs_root(sys.argv[1])
    case.main()
