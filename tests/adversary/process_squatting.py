#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another user takes the names that Cryo's parts meet at, before they do: programs are saved all the
same, and MPI jobs start."""
import errno
import os
import re
import select
import shutil
import subprocess
import sys
import time

import process_attack
from process_attack import ATTACKER, PLACE, VICTIM, case, user

PROGRAMS = []  # which saves itself
PATIENCE = 10  # seconds, of a command that meets what the attacker has left
CROWD_SIZE = 100  # connections of one of the crowd
NOBODYS = 64123  # a user without a directory for jobs

# Takes the abstract address of each of these numbers, as ATTACKER; listens there where asked.
TAKE = """
import os, socket, sys
names = sys.argv[2:]
taken = []
for name in names:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.bind("\\0" + name)
    if sys.argv[1] == "listen":
        one.listen()
    taken.append(one)
print("ready", flush=True)
sys.stdin.read()
"""
# Connects over and over to every address at which a checkpoint waits for a program to save itself.
CROWD = """
import socket
met = False
while True:
    with open("/proc/net/unix", encoding="ascii") as sockets:
        names = [line.split("@", 1)[1].strip() for line in sockets if "@cryo-self." in line]
    for name in names:
        try:
            for _ in range(100):
                one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
                one.connect("\\0" + name)
                if not met:
                    print("in the way", flush=True)
                met = True
        except OSError:
            pass
"""

# Connects to the address by which checkpoints of a program take turns, as often as it may, and sends
# packets with as many descriptors as one can carry to whoever reads them.
CROWD_AT_TURNS = """
import array, os, socket, sys
own = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))]
def connect():
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            one.connect("\\0" + sys.argv[1])
            return one
        except OSError:
            one.close()
crowd = [connect() for _ in range(int(sys.argv[2]))]
said = False
while True:
    for i, one in enumerate(crowd):
        try:
            while True:
                one.sendmsg([b"x"], own)
        except BlockingIOError:
            pass
        except OSError: # it was hung up on
            crowd[i] = connect()
    if not said:
        print("in the way", flush=True)
    said = True
"""
# A program that is its own agent. It says when it is asked to prepare, which it does when it is told,
# and when it is told to stop, which it never does.
PREPARES = """
import os, signal, socket, struct, sys
signal.signal(signal.SIGRTMAX, lambda *_: None)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
name = f"/tmp/cryo.{os.getpid()}.{os.urandom(8).hex()}"
listener.bind(name)
listener.listen()
door = os.open(name, os.O_PATH | os.O_NOFOLLOW)
os.unlink(name)
print("ready", flush=True)
STOP, PREPARE, ACCEPTED = 1, 10, 11
connection, _ = listener.accept()
def reply(op):
    connection.send(struct.pack("=IHHqQQ", 0x6f797243, 17, op, 0, 0, 0))
if sys.argv[1] == "answers":
    reply(ACCEPTED)
print("asked", flush=True)
sys.stdin.readline()
reply(PREPARE)
while packet := connection.recv(8192):
    if len(packet) == 40 and struct.unpack_from("=IHH", packet)[2] == STOP:
        print("told to stop", flush=True)
"""

# Connects there twenty times, and says nothing.
IDLE_AT_TURNS = """
import socket, sys
idle = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(20)]
for one in idle:
    one.connect("\\0" + sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def waiting_at(pid):
    """The address at which a checkpoint waits for this program to save itself, as everybody sees it."""
    with open("/proc/net/unix", encoding="ascii") as sockets:
        found = re.search(rf"@(cryo-self\.\S+\.{pid}\.\w+)$", sockets.read(), re.MULTILINE)
    return found and found.group(1)


def sockets_of(pid):
    found = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return [link for link in found if link.startswith("socket:")]


class Squatting(process_attack.Attack):
    def take(self, how, names):
        squatter = self.spawn("/usr/bin/python3", "-S", "-c", TAKE, how, *names, **user(ATTACKER))
        self.assertEqual("ready\n", squatter.stdout.readline())
        return squatter

    @staticmethod
    def names_of(pid):
        space = os.readlink(f"/proc/{pid}/ns/pid")
        return [f"cryo.{space}.{pid}", f"cryo.{space}.{pid}.turn"]

    def save_and_measure(self, pid, name, who):
        begun, before = time.monotonic(), os.times()
        done = self.checkpoint("-q", "--nosync", "-f", name, pid, timeout=PATIENCE, **user(who))
        self.assertEqual(0, done.returncode, done.stderr)
        after = os.times()
        spent = (after.children_user + after.children_system - before.children_user -
                 before.children_system)
        self.assertLess(time.monotonic() - begun, PATIENCE)
        self.assertLess(spent, 2)  # it does not spin

    def test_addresses_taken(self):
        """Those at which agents listened once, and those by which checkpoints take turns."""
        program = self.start(**user(VICTIM))
        for how in ("listen", "only bind"):
            squatter = self.take(how, [name for name in self.names_of(program.pid)])
            for who in (VICTIM, 0):
                self.save_and_measure(program.pid, f"image.{how[0]}.{who}", who)
            self.end(squatter)
        self.assert_alive(program)

    def test_addresses_taken_before(self):
        """The attacker knows which number comes next, and is there first."""
        space = os.readlink("/proc/self/ns/pid")
        with open("/proc/sys/kernel/ns_last_pid", encoding="ascii") as last:
            first = int(last.read())
        numbers = range(first, first + 300)
        self.take("only bind", [f"cryo.{space}.{number}" for number in numbers])
        program = self.start(**user(VICTIM))
        self.save_and_measure(program.pid, "image", VICTIM)
        self.assert_alive(program)

    def start_one_that_saves_itself(self, log, *words):
        placed = os.path.join(PLACE, "self")
        if not os.path.exists(placed):
            shutil.copy(PROGRAMS[0], placed)
        libraries = os.pathsep.join(os.path.join(PLACE, name) for name in ("lib", "lib64"))
        program = self.spawn(placed, self.path(log), *words, **user(VICTIM),
                             env={**os.environ, "LD_LIBRARY_PATH": libraries})
        case.wait_until("its log", lambda: os.path.exists(self.path(log)))
        return program

    def save_itself(self, program, image, *options):
        return self.spawn(case.command("cr_checkpoint"), "--backend=self", "-f", image, *options,
                          program.pid, stderr=subprocess.PIPE, **user(VICTIM))

    def test_address_of_one_that_saves_itself(self):
        """The attacker knows where the last checkpoint has waited, and is there before the next. One
        point is enough then."""
        for how in ("listen", "bind"):
            program = self.start_one_that_saves_itself(how, "once")
            first = self.save_itself(program, "never")
            case.wait_until("its address", lambda pid=program.pid: waiting_at(pid))
            address = waiting_at(program.pid)
            self.end(first)
            self.take(how, [address])
            second = self.save_itself(program, f"image.{how}")
            os.rename(self.write("point", "", owner=VICTIM), self.path(f"{how}.point"))
            self.assertEqual(0, second.wait(PATIENCE), second.stderr.read())
            self.assertIsNone(program.poll())

    def test_crowd_at_the_addresses_of_those_that_save_themselves(self):
        crowds = [self.spawn("/usr/bin/python3", "-S", "-c", CROWD, **user(ATTACKER))
                  for _ in range(3)]
        held = self.start_one_that_saves_itself("held", "never")
        waiting = self.save_itself(held, "never")
        for crowd in crowds:
            self.assertEqual("in the way\n", crowd.stdout.readline())
        program = self.start_one_that_saves_itself("free")
        for name in ("image", "again"):
            saved = self.save_itself(program, name)
            self.assertEqual(0, saved.wait(PATIENCE), saved.stderr.read())
        limited = self.save_itself(held, "limited", "--time=1")
        self.assertIn(limited.wait(PATIENCE), (errno.ETIME, errno.EBUSY))
        self.end(held)
        self.assertEqual(errno.ESRCH, waiting.wait(PATIENCE), waiting.stderr.read())

    def begin_in_a_crowd(self, mode, *words):
        """The checkpoint by root of a program that is its own agent, which then asks it to prepare."""
        program = self.spawn("/usr/bin/python3", "-S", "-c", PREPARES, mode, **user(VICTIM))
        self.assertEqual("ready\n", program.stdout.readline())
        turn = self.names_of(program.pid)[1]
        crowds = [self.spawn("/usr/bin/python3", "-S", "-c", CROWD_AT_TURNS, turn, CROWD_SIZE,
                             **user(ATTACKER)) for _ in range(2)]
        saver = self.spawn(case.command("cr_checkpoint"), *words, "-f", "image", program.pid,
                           stderr=subprocess.PIPE)
        self.assertEqual("asked\n", program.stdout.readline())
        for crowd in crowds:
            self.assertEqual("in the way\n", crowd.stdout.readline())
        return program, saver

    def test_crowd_at_the_turns(self):
        program, saver = self.begin_in_a_crowd("answers")
        program.stdin.write("prepare\n")
        program.stdin.flush()
        self.assertTrue(select.select([program.stdout], [], [], PATIENCE)[0], "nobody listens to it")
        self.assertEqual("told to stop\n", program.stdout.readline())
        self.assertLess(len(os.listdir(f"/proc/{saver.pid}/fd")), CROWD_SIZE)

    def test_crowd_at_the_turns_of_one_that_says_nothing(self):
        _, saver = self.begin_in_a_crowd("silent", "--stall=2")
        self.assertNotEqual(0, saver.wait(PATIENCE))
        self.assertIn("does not answer", saver.stderr.read())

    def test_users_that_take_turns(self):
        """The program's user waits for root's checkpoint, and is not hung up on before it has ended,
        however many of another user's wait there, too."""
        program = self.spawn("/usr/bin/python3", "-S", "-c", PREPARES, "answers", **user(VICTIM))
        self.assertEqual("ready\n", program.stdout.readline())
        roots = self.spawn(case.command("cr_checkpoint"), "-f", "roots", program.pid,
                           stderr=subprocess.PIPE)
        self.assertEqual("asked\n", program.stdout.readline())
        idle = self.spawn("/usr/bin/python3", "-S", "-c", IDLE_AT_TURNS,
                          self.names_of(program.pid)[1], **user(ATTACKER))
        self.assertEqual("ready\n", idle.stdout.readline())
        own = self.spawn(case.command("cr_checkpoint"), "-v", "-f", "own", program.pid,
                         stderr=subprocess.PIPE, **user(VICTIM))
        while "waiting for the checkpoint" not in own.stderr.readline():
            self.assertIsNone(own.poll())
        connected = sockets_of(own.pid)
        self.assertEqual(1, len(connected))
        program.stdin.write("prepare\n")
        program.stdin.flush()
        self.assertEqual("told to stop\n", program.stdout.readline())
        self.assertEqual(connected, sockets_of(own.pid))
        self.end(program)
        self.assertNotEqual(0, roots.wait(PATIENCE))
        self.assertNotEqual(0, own.wait(PATIENCE))

    def test_place_of_jobs_taken(self):
        place = f"/tmp/cryo-{NOBODYS}"
        os.mkdir(place, 0o777)
        self.addCleanup(shutil.rmtree, place)
        os.chown(place, ATTACKER, ATTACKER)
        environment = {name: value for name, value in os.environ.items()
                       if name not in ("XDG_RUNTIME_DIR", "CRYO_RUNTIME_DIR")}
        done = self.run_command("cr_run", "--mpi", "sh", "-c", "env; stat -c %u:%a $CRYO_RUNTIME_DIR",
                                env={**environment, "CRYO_LISTEN": "127.0.0.1"}, **user(NOBODYS))
        self.assertEqual(0, done.returncode, done.stderr)
        found = re.search(rf"^CRYO_RUNTIME_DIR=({place}\.\w+)$", done.stdout, re.MULTILINE)
        self.assertTrue(found, done.stdout)
        self.assertIn(f"\n{NOBODYS}:700\n", done.stdout)
        self.assertEqual([], os.listdir(place))
        # The job's daemon ends with the launcher, and leaves nothing.
        case.wait_until("its end", lambda: not os.path.exists(found.group(1)))

    def test_private_place_of_jobs(self):
        """Where the user has a directory of his own, nothing is in /tmp."""
        self.addCleanup(shutil.rmtree, f"/tmp/cryo-{NOBODYS}", ignore_errors=True)
        own = self.path("own")
        os.mkdir(own, 0o700)
        os.chown(own, NOBODYS, NOBODYS)
        done = self.run_command("cr_run", "--mpi", "sh", "-c", "find $XDG_RUNTIME_DIR",
                                env={**os.environ, "CRYO_LISTEN": "127.0.0.1",
                                     "XDG_RUNTIME_DIR": own}, **user(NOBODYS))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, rf"{own}/cryo/\d+-\w+/\.root")
        self.assertFalse(os.path.exists(f"/tmp/cryo-{NOBODYS}"))

    def test_directory_of_others_is_not_used(self):
        """An XDG_RUNTIME_DIR in which others may write: the agent listens elsewhere."""
        open_to_all = self.path("open")
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o777)
        program = self.start(env={**os.environ, "XDG_RUNTIME_DIR": open_to_all}, **user(VICTIM))
        doors = [os.readlink(f"/proc/{program.pid}/fd/{fd}")
                 for fd in os.listdir(f"/proc/{program.pid}/fd")]
        self.assertTrue([door for door in doors if re.search(r"/cryo\.\d+\.\w{16} \(deleted\)$", door)])
        self.assertFalse([door for door in doors if door.startswith(open_to_all)])
        self.save_and_measure(program.pid, "image", VICTIM)


if __name__ == "__main__":
    PROGRAMS = sys.argv[2:]
    del sys.argv[2:]
    process_attack.main()
