#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""POSIX message queues: what is rolled back, what is made again, and what is refused."""
import ctypes
import errno
import os
import subprocess

import case
import processes

NAME = f"/cryo.test.{os.getpid()}".encode()

# A line of input is a Python expression about these.
ASKED = """
import ctypes, os, sys
lib = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("flags", "most", "size", "now")]
    _fields_ += [("unused", ctypes.c_long * 4)]
def checked(result):
    if result == -1: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def make(name, most=4, size=64):
    return checked(lib.mq_open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NONBLOCK, 0o600,
                               ctypes.byref(Attributes(0, most, size))))
def use(name): return checked(lib.mq_open(name, os.O_RDWR | os.O_NONBLOCK))
def send(queue, text, priority=0): return checked(lib.mq_send(queue, text, len(text), priority))
def take(queue):
    room = ctypes.create_string_buffer(64)
    size = checked(lib.mq_receive(queue, room, 64, None))
    return room.raw[:size].decode()
def tell_by_signal(queue):
    event = (ctypes.c_int * 16)()
    event[2], event[3] = 10, 0 # SIGUSR1, SIGEV_SIGNAL
    return checked(lib.mq_notify(queue, ctypes.byref(event)))
def tell_no_more(queue): return checked(lib.mq_notify(queue, None))
print('ready', flush=True)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as error: print('error', error.errno, flush=True)
"""


class MessageQueues(case.Case):
    def setUp(self):
        super().setUp()
        self.name = repr(NAME)
        self.addCleanup(self.remove)

    @staticmethod
    def remove():
        library = ctypes.CDLL(None)
        getattr(library, "mq_unlink")(NAME)

    def asked(self, *prefix):
        program = self.spawn(*prefix, "/usr/bin/python3", "-S", "-c", ASKED,
                             stderr=subprocess.DEVNULL)
        self.assertEqual("ready\n", program.stdout.readline())
        return program

    def ask(self, program, expression):
        program.stdin.write(expression + "\n")
        program.stdin.flush()
        return program.stdout.readline().strip()

    def told(self, program, expression):
        answer = self.ask(program, expression)
        self.assertFalse(answer.startswith("error"), f"{expression}: {answer}")
        return answer

    def with_messages(self):
        program = self.asked(case.command("cr_run"))
        queue = self.told(program, f"make({self.name})")
        self.told(program, f"send({queue}, b'later', 1)")
        self.told(program, f"send({queue}, b'sooner', 2)")
        return program, queue

    def check(self, program, queue):
        self.assertEqual(["sooner", "later", f"error {errno.EAGAIN}"],
                         [self.ask(program, f"take({queue})") for _ in range(3)])
        self.assertEqual("0", self.told(program, f"send({queue}, b'later', 1)"))
        again = self.told(program, f"use({self.name})")
        self.assertEqual("later", self.told(program, f"take({again})"))

    def killed(self, program):
        self.save("--kill", "-f", "image", program.pid)
        program.wait()

    def refused(self, code, *words):
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(code, done.returncode, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)

    def test_the_program_keeps_its_messages(self):
        program, queue = self.with_messages()
        for _ in range(3):
            self.save("--clobber", "-f", "image", program.pid)
        self.check(program, queue)

    def test_what_is_there_is_rolled_back(self):
        program, queue = self.with_messages()
        self.save("-f", "image", program.pid)
        self.told(program, f"take({queue})")
        self.told(program, f"send({queue}, b'another', 3)")
        self.refused(errno.EBUSY, f"process {program.pid}")
        self.assertEqual("another", self.told(program, f"take({queue})"))
        self.end(program)
        self.check(self.restart("-q", "image"), queue)

    def test_what_is_gone_is_made_again(self):
        program, queue = self.with_messages()
        self.killed(program)
        self.remove()
        self.check(self.restart("-q", "image"), queue)

    def test_another_queue_of_that_name(self):
        program, _ = self.with_messages()
        self.killed(program)
        self.remove()
        other = self.asked()
        self.told(other, f"make({self.name}, 3)")
        self.refused(errno.EEXIST, "3 messages")

    def test_users_outside(self):
        program, queue = self.with_messages()
        other = self.asked()
        outside = self.told(other, f"use({self.name})")
        said = self.refuse(errno.ENOTSUP, "-f", "image", program.pid)
        self.assertIn(f"process {other.pid}", said)
        self.assertNotIn("image", self.files())
        self.assertEqual("0", self.told(other, f"lib.mq_close({outside})"))
        self.killed(program)
        self.told(other, f"use({self.name})")
        self.refused(errno.EBUSY, f"process {other.pid}")
        self.end(other)
        self.check(self.restart("-q", "image"), queue)

    def test_one_that_is_to_tell(self):
        program, queue = self.with_messages()
        self.told(program, f"tell_by_signal({queue})")
        self.assertIn("mq_notify", self.refuse(errno.ENOTSUP, "-f", "image", program.pid))
        self.told(program, f"tell_no_more({queue})")
        self.save("-f", "image", program.pid)
        self.check(program, queue)


if __name__ == "__main__":
    processes.have_own_ipc()
    case.main()
