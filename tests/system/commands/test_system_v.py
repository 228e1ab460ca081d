#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""System V objects: which come back, when they are taken again, and what is refused.

With --plain-user by a user without privileges, who may not choose ids."""
import ctypes
import errno
import os
import re
import signal
import subprocess
import sys

import case
import processes

IPC_RMID, IPC_CREAT, IPC_EXCL, IPC_NOWAIT, SEM_UNDO = 0, 0o1000, 0o2000, 0o4000, 0x1000
GETVAL, SETVAL = 12, 16

# A line of input is a Python expression about these.
ASKED = """
import ctypes, os, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
class Sembuf(ctypes.Structure):
    _fields_ = [("num", ctypes.c_ushort), ("op", ctypes.c_short), ("flags", ctypes.c_short)]
class Message(ctypes.Structure):
    _fields_ = [("type", ctypes.c_long), ("text", ctypes.c_char * 64)]
def checked(result):
    if result == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def get(name, *words): return checked(getattr(libc, name)(*words))
def attach(id): return checked(libc.shmat(id, None, 0))
def put(at, text): ctypes.memmove(at, text, len(text) + 1)
def read(at): return ctypes.string_at(at).decode()
def operate(id, op, flags=0): return checked(libc.semop(id, ctypes.byref(Sembuf(0, op, flags)), 1))
def send(id, text): return checked(libc.msgsnd(id, ctypes.byref(Message(1, text)), len(text), 0o4000))
def take(id, flags=0o4000):
    message = Message()
    size = checked(libc.msgrcv(id, ctypes.byref(message), 64, 0, flags))
    return message.text[:size].decode()
def give(id, uid):
    about = (ctypes.c_uint * 64)() # a semid_ds: key, uid, ...
    checked(libc.semctl(id, 0, 2, about)) # IPC_STAT
    about[1] = uid
    return checked(libc.semctl(id, 0, 1, about)) # IPC_SET
def later(f):
    threading.Thread(target=f, daemon=True).start()
"""
LOOP = """
print('ready', flush=True)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as error: print('error', error.errno, flush=True)
"""
KEY = 0x5ec1234


def objects():
    """All there are: (kind, id)."""
    found = []
    for kind in ("shm", "sem", "msg"):
        with open(f"/proc/sysvipc/{kind}", encoding="ascii") as file:
            found += [(kind, int(line.split()[1])) for line in list(file)[1:]]
    return found


def remove(kind, number):
    libc = ctypes.CDLL(None)
    words = (number, 0, IPC_RMID, 0) if kind == "sem" else (number, IPC_RMID, None)
    getattr(libc, f"{kind}ctl")(*words)


class SystemV(case.Case):
    plain = False

    def setUp(self):
        super().setUp()
        self.before = objects()

    def tearDown(self):
        super().tearDown()
        for kind, number in self.made():
            remove(kind, number)

    def made(self):
        """What this test has made and nobody has removed."""
        return [one for one in objects() if one not in self.before]

    def asked(self, *prefix):
        program = self.spawn(*prefix, "/usr/bin/python3", "-S", "-c", ASKED + LOOP,
                             stderr=subprocess.DEVNULL)
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def saved(self):
        return self.asked(case.command("cr_run"))

    def ask(self, program, expression):
        program.stdin.write(expression + "\n")
        program.stdin.flush()
        answer = program.stdout.readline().strip()
        self.assertFalse(answer.startswith("error"), f"{expression}: {answer}")
        return answer

    def make_all(self, program):
        """A segment, a set and a queue, with something in them."""
        ids = [self.ask(program, f"get('{call}', {KEY}, {middle} 0o3600)")
               for call, middle in (("shmget", "4096,"), ("semget", "1,"), ("msgget", ""))]
        segment, semaphores, queue = ids
        self.ask(program, f"globals().__setitem__('at', attach({segment}))")
        self.ask(program, "put(at, b'segment')")
        self.ask(program, f"get('semctl', {semaphores}, 0, {SETVAL}, 7)")
        self.ask(program, f"send({queue}, b'message')")
        return ids

    def check_all(self, program, ids):
        segment, semaphores, queue = ids
        for call, number, middle in (("shmget", segment, "0,"), ("semget", semaphores, "0,"),
                                     ("msgget", queue, "")):
            self.assertEqual(number, self.ask(program, f"get('{call}', {KEY}, {middle} 0)"))
        self.assertEqual("segment", self.ask(program, "read(at)"))
        self.assertEqual("7", self.ask(program, f"get('semctl', {semaphores}, 0, {GETVAL})"))
        self.assertEqual("message", self.ask(program, f"take({queue})"))

    def killed(self, program):
        self.save("--kill", "-f", "image", program.pid)
        program.wait()

    def remove_all(self):
        for kind, number in self.made():
            remove(kind, number)
        self.assertEqual([], self.made())

    def refused(self, code, *words):
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(code, done.returncode, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)

    def test_what_is_there_is_rolled_back(self):
        program = self.saved()
        ids = self.make_all(program)
        self.save("-f", "image", program.pid)
        segment, semaphores, queue = ids
        self.ask(program, "put(at, b'changed')")
        self.ask(program, f"get('semctl', {semaphores}, 0, {SETVAL}, 3)")
        self.ask(program, f"take({queue})")
        self.ask(program, f"send({queue}, b'another')")
        self.ask(program, f"send({queue}, b'and one more')")
        # As long as it uses them, nobody may.
        self.refused(errno.EBUSY, f"process {program.pid}", f"segment {segment}")
        self.assertEqual("changed", self.ask(program, "read(at)"))
        self.end(program)
        restarted = self.restart("-q", "image")
        self.check_all(restarted, ids)
        # And once more, from what has come back.
        self.ask(restarted, f"send({queue}, b'message')")
        self.save("--kill", "-f", "image", "--clobber",
                  self.ask(restarted, "os.getpid()"))
        restarted.wait()
        restarted = self.restart("-q", "image")
        self.check_all(restarted, ids)

    def test_what_is_gone_is_made_again(self):
        program = self.saved()
        ids = self.make_all(program)
        self.killed(program)
        self.remove_all()
        if self.plain:
            self.refused(errno.EPERM, "--pidns", f"segment {ids[0]}")
            self.assertEqual([], self.made())
            return
        restarted = self.restart("-q", "image")
        self.check_all(restarted, ids)
        self.assertEqual(3, len(self.made()))

    def test_in_a_namespace_of_its_own(self):
        program = self.saved()
        ids = self.make_all(program)
        self.killed(program)
        others = self.made()
        restarted = self.spawn(case.command("cr_restart"), "-q", "--pidns", "image")
        self.check_all(restarted, ids)
        self.ask(restarted, f"send({ids[2]}, b'message')")
        self.assertEqual(others, self.made())
        pid = processes.children(processes.children(restarted.pid)[0])[0]
        self.save("--kill", "-f", "second", pid)
        restarted.wait(case.PATIENCE)
        restarted = self.spawn(case.command("cr_restart"), "-q", "--pidns", "second")
        self.check_all(restarted, ids)

    def test_given_to_a_user_who_is_not_there(self):
        """In a namespace that a plain user makes nobody else is."""
        program = self.saved()
        ids = self.make_all(program)
        self.ask(program, f"give({ids[1]}, 32765)")
        self.killed(program)
        restarted = self.spawn(case.command("cr_restart"), "-q", "--pidns", "image")
        self.check_all(restarted, ids)

    def test_others_that_use_it(self):
        program = self.saved()
        ids = self.make_all(program)
        segment, semaphores, queue = ids
        self.ask(program, f"take({queue})")
        self.killed(program)
        other = self.asked()
        self.ask(other, f"globals().__setitem__('at', attach({segment}))")
        self.refused(errno.EBUSY, f"process {other.pid}", f"segment {segment}")
        self.assertEqual("0", self.ask(other, "libc.shmdt(ctypes.c_void_p(at))"))
        self.ask(other, f"later(lambda: take({queue}, 0))")
        case.wait_until("the wait", lambda: self.waits(other.pid))
        self.refused(errno.EBUSY, f"process {other.pid}", f"queue {queue}")
        self.end(other)
        other = self.asked()
        self.ask(other, f"operate({semaphores}, 1)")
        self.refused(errno.EBUSY, f"process {other.pid}", f"set {semaphores}")
        self.end(other)
        self.assert_right("image")

    def test_the_same_id_in_another_namespace(self):
        if self.plain:
            return
        program = self.saved()
        ids = self.make_all(program)
        self.ask(program, f"take({ids[2]})")
        self.killed(program)
        other = self.asked("unshare", "--ipc")
        self.ask(other, f"open('/proc/sys/kernel/msg_next_id', 'w').write('{ids[2]}')")
        self.assertEqual(ids[2], self.ask(other, "get('msgget', 0, 0o1600)"))
        self.ask(other, f"later(lambda: take({ids[2]}, 0))")
        case.wait_until("the wait", lambda: self.waits(other.pid))
        self.assert_right("image")

    def assert_right(self, image):
        restarted = self.restart("-q", image)
        self.assertEqual("segment", self.ask(restarted, "read(at)"))
        self.end(restarted)

    @staticmethod
    def waits(pid):
        msgrcv = "70 "
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/syscall", encoding="ascii") as file:
                if file.read().startswith(msgrcv):
                    return True
        return False

    def test_another_one_with_its_key(self):
        program = self.saved()
        ids = self.make_all(program)
        self.killed(program)
        remove("msg", int(ids[2]))
        other = self.asked()
        self.ask(other, f"get('msgget', {KEY}, 0o1600)")
        self.refused(errno.EPERM if self.plain else errno.EEXIST, f"queue {ids[2]}", f"{KEY:#x}")
        # The segment and the set, which were there, are still.
        self.assertEqual(3, len(self.made()))

    def test_a_failed_restart_leaves_nothing(self):
        if self.plain:
            return
        program = self.saved()
        self.make_all(program)
        with open(self.path("file"), "wb") as file:
            file.write(b"x" * 4096)
        self.ask(program, "globals().__setitem__('file', __import__('mmap').mmap("
                          "os.open('file', os.O_RDONLY), 4096, flags=2, prot=1))")
        self.killed(program)
        self.remove_all()
        with open(self.path("file"), "r+b") as file:
            file.write(b"y" * 4096)
        self.refused(errno.EINVAL, "file has other contents")
        self.assertEqual([], self.made())

    def test_made_at_this_moment(self):
        """Where the call that makes one has just returned, or is about to, it is in the image."""
        program = self.saved()
        self.ask(program, "[later(lambda: [get('shmctl', get('shmget', 0, 1 << 20, 0o600), "
                          f"{IPC_RMID}, None) for _ in iter(int, 1)]) for _ in range(4)]")
        for number in range(20):
            self.save("-q", "--nosync", "--stop", "-f", f"image.{number}", program.pid)
            there = {number for kind, number in self.made() if kind == "shm"}
            shown = self.run_command("cr_inspect", "--records", f"image.{number}").stdout
            saved = re.findall(r"IPC v\d.*\n *kind = segment\n(?: *id = (\d+)\n)?", shown)
            self.assertEqual(there, {int(one or 0) for one in saved})
            os.kill(program.pid, signal.SIGCONT)

    def test_removed_while_attached(self):
        program = self.saved()
        segment = self.ask(program, "get('shmget', 0, 4096, 0o600)")
        self.ask(program, f"globals().__setitem__('at', attach({segment}))")
        self.ask(program, f"get('shmctl', {segment}, {IPC_RMID}, None)")
        self.ask(program, "put(at, b'segment')")
        self.killed(program)
        self.assertEqual([], self.made())
        restarted = self.restart("image", stderr=subprocess.PIPE)
        self.assertEqual("segment", self.ask(restarted, "read(at)"))
        self.end(restarted)
        case.wait_until("its end", lambda: not self.made())

    def test_undo_of_threads_that_do_not_share_it(self):
        program = self.saved()
        semaphores = self.ask(program, "get('semget', 0, 1, 0o600)")
        self.ask(program, f"operate({semaphores}, 1, {SEM_UNDO})")
        self.save("-f", "image", program.pid)
        clone_sysvsem = 0x40000
        self.ask(program, f"later(lambda: (get('unshare', {clone_sysvsem}), "
                          "globals().__setitem__('apart', 1), __import__('time').sleep(1000)))")
        case.wait_until("the thread", lambda: self.ask(program, "'apart' in globals()") == "True")
        self.assertIn("SEM_UNDO", self.refuse(errno.ENOTSUP, "-f", "another", program.pid))
        self.assertNotIn("another", self.files())
        self.ask(program, f"get('semctl', {semaphores}, 0, {IPC_RMID})")
        self.save("-f", "another", program.pid)


if __name__ == "__main__":
    processes.have_own_ipc()
    SystemV.plain = "--plain-user" in sys.argv
    case.main()
