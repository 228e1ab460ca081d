#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user's process answers in the place of a program: root's checkpoint of that program does
not speak with it. Another user's program answers, but has other files when they are read than when
they were looked at: root's checkpoint reads none but those that the program could read itself."""
import contextlib
import ctypes
import errno
import os
import re
import shutil
import socket
import subprocess
import sys
import time

import process_attack
from process_attack import ATTACKER, PLACE, VICTIM, case, user

ENOSUPPORT = 2356 & 0xff
WAITER = ""

# Listens where an agent would, at the door that it hands on as descriptor 960 and at the address that
# agents once had; says who calls. What follows in the arguments is executed, under the same number.
IMPOSTOR = """
import os, select, socket, sys
def listener(name):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.bind(name)
    one.listen()
    return one
path = f"/tmp/cryo.{os.getpid()}.{os.urandom(8).hex()}"
places = [listener(path), listener(f"\\0cryo.{os.readlink('/proc/self/ns/pid')}.{os.getpid()}")]
door = os.open(path, os.O_PATH)
os.unlink(path)
os.dup2(door, 960)
if os.fork() == 0:
    print("ready", flush=True)
    while True:
        for place in select.select(places, [], [])[0]:
            print("heard", len(place.accept()[0].recv(5000)), flush=True)
os.execv(sys.argv[1], sys.argv[1:])
"""

# Takes any descriptor from anybody, as a server may, and keeps it; hears the checkpoint signal.
SERVER = """
import array, os, signal, socket
signal.signal(signal.SIGRTMAX, lambda *_: None)
place = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
place.bind("server")
os.chmod("server", 0o666)
place.listen()
print("ready", flush=True)
kept = []
while True:
    peer = place.accept()[0]
    kept.append(peer.recvmsg(1, socket.CMSG_SPACE(4)))
    peer.send(b"k")
"""

# A door at which somebody listens, and giving it to such a server.
DOOR = """
import array, os, socket, sys
def listen(number):
    own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = f"/tmp/cryo.{number}.{os.urandom(8).hex()}"
    own.bind(path)
    os.chmod(path, 0o666)
    own.listen()
    door = os.open(path, os.O_PATH)
    os.unlink(path)
    return own, door
def give(own, door):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.connect("server")
    server.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [door]))])
    server.recv(1)
    print("ready", flush=True)
    while True:
        peer = own.accept()[0]
        print("heard", len(peer.recv(5000)), flush=True)
"""

# Gives the door at which it listens itself.
GIVER = DOOR + "give(*listen(sys.argv[1]))\n"

# A process listens at a door of its own number, leaves it to a child, and ends: its number is free.
# The child gives the door to the server when it is told to.
FORMER = DOOR + """
told, tell = os.pipe()
if os.fork() == 0:
    own, door = listen(os.getpid())
    if os.fork() == 0:
        sys.stdin.readline()
        give(own, door)
    os.write(tell, b"%d" % os.getpid())
    os._exit(0)
os.wait()
print(os.read(told, 20).decode(), flush=True)
os.close(0)
os.read(told, 1)
"""

# A program that is its own agent, and is not stopped. Descriptor 100 is a removed file of its own until
# it is asked for its descriptors, and then what the second argument names. With "late" it has passed
# on the former one by then.
EXCHANGE = """
import array, os, signal, socket, struct, sys
signal.signal(signal.SIGRTMAX, lambda *_: None)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
name = f"/tmp/cryo.{os.getpid()}.{os.urandom(8).hex()}"
listener.bind(name)
listener.listen(4)
door = os.open(name, os.O_PATH | os.O_NOFOLLOW)
os.unlink(name)
own = os.open(".", os.O_TMPFILE | os.O_RDWR)
os.ftruncate(own, 1 << 20)
os.dup2(own, 100)
os.close(own)
other = os.open(sys.argv[2], os.O_PATH)
print("ready", flush=True)
THREADS, PROCESS, ACTIONS, PREPARE, ACCEPTED, OWN, DESCRIPTORS = 2, 3, 4, 10, 11, 13, 20
connection, _ = listener.accept()
def reply(op, value=0, count=0, pass_on=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", pass_on))]
    connection.sendmsg([struct.pack("=IHHqQQ", 0x6f797243, 4, op, 0, value, count)],
                       rights if pass_on else [])
reply(ACCEPTED)
reply(PREPARE)
while packet := connection.recv(8192):
    if len(packet) != 40:
        continue
    _, _, op, base, *bits = struct.unpack("=IHHQQQQ", packet)
    if op == DESCRIPTORS:
        numbers = [base + i for i in range(192) if bits[i // 64] >> i % 64 & 1]
        before = os.dup(100)
        os.dup2(other, 100)
        late = sys.argv[1] == "late" # then what was there before is passed on
        reply(op, pass_on=[before if late and number == 100 else number for number in numbers])
        os.close(before)
        print("exchanged", flush=True)
        continue
    if op != PREPARE:
        reply(op, count=op == THREADS)
    if op in (THREADS, PROCESS, ACTIONS, OWN):
        connection.send(struct.pack("=I", os.getpid()) + bytes(4092))
"""


def knock(pid):
    """At the address where agents listened once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as caller:
        caller.connect(f"\0cryo.{os.readlink('/proc/self/ns/pid')}.{pid}")
        caller.send(b"x")


class Impersonation(process_attack.Attack):
    def privileged(self):
        """A setuid program of root's that catches the checkpoint signal and waits."""
        name = os.path.join(PLACE, "waiter")
        shutil.copy(WAITER, name)
        os.chmod(name, 0o4755)
        return name

    def test_of_a_setuid_program(self):
        """The attacker listens, leaves that to a child, and becomes root's program: same number."""
        program = self.spawn("/usr/bin/python3", "-S", "-c", IMPOSTOR, self.privileged(),
                             **user(ATTACKER))
        self.assertEqual("ready\n", program.stdout.readline())
        case.wait_until("the program", lambda: os.readlink(f"/proc/{program.pid}/exe") ==
                        os.path.join(PLACE, "waiter"))
        case.wait_until("its handler", lambda: int(case.status(program.pid, "SigCgt"), 16) >> 63)
        self.assertEqual("0", case.status(program.pid, "Uid").split()[1])
        said = self.refuse(ENOSUPPORT, "-f", "image", program.pid)
        self.assertIn("setuid", said)
        self.assertFalse(os.path.exists(self.path("image")))
        knock(program.pid)
        self.assertEqual("heard 1\n", program.stdout.readline())  # nobody had called before

    def test_by_a_descriptor_that_a_server_keeps(self):
        server = self.spawn("/usr/bin/python3", "-S", "-c", SERVER, **user(VICTIM))
        self.assertEqual("ready\n", server.stdout.readline())
        giver = self.spawn("/usr/bin/python3", "-S", "-c", GIVER, server.pid,
                           **user(ATTACKER))
        self.assertEqual("ready\n", giver.stdout.readline())
        said = self.refuse(errno.EPERM, "-f", "image", server.pid)
        self.assertIn(f"process {server.pid} does not listen for requests: "
                      f"process {giver.pid} listens in its place", said)
        self.assertEqual("heard 0\n", giver.stdout.readline())
        self.assertIsNone(server.poll())

    def test_of_a_former_number(self):
        """As above, by a process that had the number of the server before, and has ended."""
        former = self.spawn("/usr/bin/python3", "-S", "-c", FORMER, **user(ATTACKER))
        pid = int(former.stdout.readline())

        def started():
            with case.next_id(pid):
                server = self.spawn("/usr/bin/python3", "-S", "-c", SERVER, **user(VICTIM))
            self.assertEqual("ready\n", server.stdout.readline())
            if server.pid != pid:  # others were faster
                self.end(server)
                os.unlink(self.path("server"))
            return server.pid == pid and server
        server = case.wait_until(f"a server with the number {pid}", started)
        former.stdin.write("now\n")
        former.stdin.flush()
        self.assertEqual("ready\n", former.stdout.readline())
        said = self.refuse(errno.EPERM, "-f", "image", pid)
        self.assertIn(f"process {pid} does not listen for requests: the listener has user id "
                      f"{ATTACKER}", said)
        self.assertEqual("heard 0\n", former.stdout.readline())
        self.assertIsNone(server.poll())

    def test_of_the_same_number(self):
        """A program becomes another one while somebody else answers for it."""
        program = self.spawn("/usr/bin/python3", "-S", "-c", IMPOSTOR, "/usr/bin/python3", "-S", "-c",
                             SERVER, **user(ATTACKER))
        self.assertEqual(["ready\n"] * 2, [program.stdout.readline() for _ in range(2)])
        # The program's own user may do so: it is the attacker's own program that is not saved.
        begun = time.monotonic()
        done = self.checkpoint("-f", "image", program.pid, timeout=30)
        self.assertNotEqual(0, done.returncode)
        self.assertLess(time.monotonic() - begun, 10 + 2)
        self.assertFalse(os.path.exists(self.path("image")))


class Door(process_attack.Attack):
    def test_strangers_do_not_ring(self):
        """Nobody else can connect to an agent, and so none is interrupted by others."""
        program = self.start(**user(VICTIM))
        doors = [fd for fd in os.listdir(f"/proc/{program.pid}/fd")
                 if re.search(r"/cryo\.\d+\.\w{16} ", os.readlink(f"/proc/{program.pid}/fd/{fd}"))]
        self.assertEqual(1, len(doors))
        knock = ("import socket, sys\n"
                 "for _ in range(1000):\n"
                 "    try:\n"
                 "        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)"
                 ".connect(sys.argv[1])\n"
                 "    except OSError as error:\n"
                 "        print(error.errno)\n"
                 "    else:\n"
                 "        print('in')\n")
        path = f"/proc/{program.pid}/fd/{doors[0]}"
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", knock, path], capture_output=True,
                              text=True, check=True, **user(ATTACKER))
        self.assertEqual({str(errno.EACCES)}, set(done.stdout.split()))
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
            names = [line.split()[-1] for line in sockets if f".{program.pid}" in line]
        self.assertEqual([], [name for name in names if name.startswith("@cryo")])
        for directory in ("/dev/shm", "/tmp", "/var/tmp"):
            self.assertEqual([], [name for name in os.listdir(directory)
                                  if re.fullmatch(rf"cryo\.{program.pid}\.[0-9a-f]{{16}}", name)])
        self.assert_alive(program)


class Exchange(process_attack.Attack):
    """The program is hostile, and root saves it."""

    def save(self, when, other):
        program = self.spawn("/usr/bin/python3", "-S", "-c", EXCHANGE, when, other, **user(ATTACKER))
        self.assertEqual("ready\n", program.stdout.readline())
        done = self.checkpoint("-f", "image", program.pid, timeout=30)
        self.assertEqual("exchanged\n", program.stdout.readline(), done.stderr)
        self.assertNotEqual(0, done.returncode)
        self.assertFalse(os.path.exists(self.path("image")))
        self.end(program)
        return done.stderr

    def check(self, other):
        said = [self.save(when, other) for when in ("late", "early")]
        self.assertIn("descriptor 100", said[0])
        self.assertIn("another file has come to its place", said[0])
        self.assertIn("descriptor 100 was exchanged", said[1])

    @contextlib.contextmanager
    def assert_not_opened(self, name):
        """Looking at where it is does not count."""
        libc = ctypes.CDLL(None, use_errno=True)
        nonblocking, opened = os.O_NONBLOCK, 0x20
        watch = libc.inotify_init1(nonblocking)
        self.assertGreater(libc.inotify_add_watch(watch, os.fsencode(name), opened), 0)
        try:
            yield
        finally:
            with self.assertRaises(BlockingIOError):
                os.read(watch, 4096)
            os.close(watch)

    def test_for_one_that_the_program_may_not_read(self):
        """The program has it by O_PATH: as for root it leads to the file."""
        secret = self.write("secret", "secret", mode=0o600)
        with self.assert_not_opened(secret):
            self.check(secret)

    def test_for_one_at_which_an_open_waits(self):
        os.mkfifo(self.path("fifo"), 0o666)
        self.check("fifo")


if __name__ == "__main__":
    case.need_own_ids()
    WAITER = sys.argv.pop(2)
    process_attack.main()
