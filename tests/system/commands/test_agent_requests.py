#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the agent in a program makes of requests: of its own release, of older ones, of later ones,
and of forged ones. Whatever comes, the program goes on."""
import errno
import os
import socket
import struct

import case

# Of the agent's protocol (userlib/protocol/agent.hpp, requests.hpp).
MAGIC, TYPED, OLDER = 0x6f797243, 20, 19
STOP, PROCESS, RESUME, PREPARE, ACCEPTED, TIMER, STAGE, ALIVE, PROVE = 1, 3, 9, 10, 11, 16, 28, 32, 35
REQUEST_INFO = bytes(5 * 4 + 4096 + 4)


def typed(op, members=b"", flags=0, size=None):
    """A request of this release, or what looks like one."""
    told = 8 + len(members) if size is None else size
    return struct.pack("=IHHII", MAGIC, TYPED, op, told, flags) + members


def older(op, *numbers):
    return struct.pack("=IHH4Q", MAGIC, OLDER, op, *numbers, *[0] * (4 - len(numbers)))


class AgentRequests(case.Case):
    def setUp(self):
        super().setUp()
        self.program = self.start()
        self.caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.caller.settimeout(case.PATIENCE)
        self.caller.connect(self.door())

    def tearDown(self):
        self.caller.close()
        super().tearDown()

    def door(self):
        directory = f"/proc/{self.program.pid}/fd"
        for number in os.listdir(directory):
            path = os.path.join(directory, number)
            if f"cryo.{self.program.pid}." in os.path.basename(os.readlink(path)):
                return path
        return self.fail("it has no door")

    def reply(self):
        """About what, the result, the value and the count."""
        magic, _, *told = struct.unpack("=IHHqQQ", self.caller.recv(64))
        self.assertEqual(MAGIC, magic)
        return tuple(told)

    def ask(self, op, packet):
        """The result, and the value."""
        self.caller.send(packet)
        about, result, value, _ = self.reply()
        self.assertEqual(op, about)
        return result, value

    def prepare(self, packet):
        """Returns what the agent can do."""
        op, result, value, features = self.reply()
        self.assertEqual((ACCEPTED, 0, 0), (op, result, value))
        self.caller.send(packet)
        self.assertEqual((0, 0), self.ask(PREPARE, REQUEST_INFO))
        return features

    def stop(self):
        features = self.prepare(typed(PREPARE, bytes(24)))
        self.assertNotEqual(0, features)
        self.assertEqual((0, 1), self.ask(STOP, typed(STOP)))

    def assert_tells_facts(self, packet):
        self.assertEqual(0, self.ask(PROCESS, packet)[0])
        self.assertLess(100, len(self.caller.recv(4096)))

    def assert_goes_on(self):
        self.assertEqual((0, 0), self.ask(RESUME, typed(RESUME, bytes(8))))
        self.assertEqual(b"", self.caller.recv(64))
        self.assert_alive(self.program)

    def test_of_its_own_release(self):
        self.stop()
        self.assert_tells_facts(typed(PROCESS))
        self.assertEqual((0, 0), self.ask(ALIVE, typed(ALIVE, flags=1)))
        self.assertEqual(-errno.EINVAL, self.ask(TIMER, typed(TIMER, struct.pack("=iI", 77, 0)))[0])
        self.assert_goes_on()

    def test_of_an_older_release(self):
        self.prepare(older(PREPARE))
        self.assertEqual((0, 1), self.ask(STOP, older(STOP)))
        self.assert_tells_facts(older(PROCESS))
        self.assertEqual((0, 0), self.ask(ALIVE, older(ALIVE, 1)))
        self.assertEqual(-errno.EINVAL, self.ask(TIMER, older(TIMER, 77))[0])
        self.assertEqual((0, 0), self.ask(RESUME, older(RESUME)))
        self.assertEqual(b"", self.caller.recv(64))
        self.assert_alive(self.program)

    def test_of_a_later_release(self):
        """What it does not know may be zeros."""
        self.stop()
        self.assert_tells_facts(typed(PROCESS, bytes(16)))
        self.assertEqual(-errno.E2BIG, self.ask(PROCESS, typed(PROCESS, bytes(15) + b"x"))[0])
        self.assertEqual(-errno.E2BIG, self.ask(PROCESS, typed(PROCESS, bytes(4000)))[0])
        self.assertEqual(-errno.EOPNOTSUPP, self.ask(PROCESS, typed(PROCESS, flags=1))[0])
        self.assertEqual(-errno.EOPNOTSUPP, self.ask(999, typed(999))[0])
        self.assert_goes_on()

    def test_forged_sizes(self):
        self.stop()
        for size in (0, 7, 9, 16, 0xffffffff):
            self.assertEqual(-errno.EINVAL, self.ask(PROCESS, typed(PROCESS, size=size))[0])
        self.assertEqual(-errno.EINVAL, self.ask(PROCESS, typed(PROCESS, b"behind", size=8))[0])
        self.assertEqual(-errno.EINVAL, self.ask(TIMER, typed(TIMER))[0])
        reserved = struct.pack("=iI", 77, 1)
        self.assertEqual(-errno.EOPNOTSUPP, self.ask(TIMER, typed(TIMER, reserved))[0])
        self.assert_goes_on()

    def descriptors(self):
        """The program's, once it waits for the next request."""
        self.assertEqual((0, 0), self.ask(ALIVE, typed(ALIVE, flags=1)))
        return sorted(os.listdir(f"/proc/{self.program.pid}/fd"))

    def test_descriptors_that_are_not_wanted(self):
        """None stays in the program: of requests that take none, and of more than any takes."""
        self.stop()
        before = self.descriptors()
        for op, packet in ((ALIVE, typed(ALIVE, flags=1)), (999, typed(999)),
                           (STAGE, typed(STAGE, bytes(16)))):
            for count in (1, 3, 4, 5):
                with self.subTest(op=op, count=count):
                    socket.send_fds(self.caller, [packet], [self.program.stdin.fileno()] * count)
                    about, result, _, _ = self.reply()
                    self.assertEqual(op, about)
                    self.assertEqual(count > 3, result == -errno.EMFILE)
                    self.assertEqual(before, self.descriptors())
        self.assert_goes_on()

    def test_not_dumpable(self):
        """Who has had its door open before must show that the kernel lets it read the process, which
        is root's."""
        self.caller.close()
        self.assert_alive(self.program)
        self.program = self.start("import ctypes; libc = ctypes.CDLL(None)",
                                  "libc.prctl(4, 0, 0, 0, 0)")
        door = os.open(self.door(), os.O_PATH)
        self.assert_alive(self.program)
        self.assert_alive(self.program)  # what follows the first is done
        self.caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.caller.settimeout(case.PATIENCE)
        self.caller.connect(f"/proc/self/fd/{door}")
        os.close(door)
        self.prepare(typed(PREPARE, bytes(24)))
        self.assertEqual((-errno.EPERM, 0), self.ask(STOP, typed(STOP)))
        result, place = self.ask(PROVE, typed(PROVE, bytes(8)))
        self.assertEqual(0, result)
        self.assertEqual(-errno.EPERM, self.ask(PROVE, typed(PROVE, b"proof..."))[0])
        self.assertEqual((-errno.EPERM, 0), self.ask(STOP, typed(STOP)))
        if os.geteuid() == 0:
            with open(f"/proc/{self.program.pid}/mem", "r+b", buffering=0) as memory:
                memory.seek(place)
                memory.write(b"proof...")
            self.assertEqual(0, self.ask(PROVE, typed(PROVE, b"proof..."))[0])
            self.assertEqual((0, 1), self.ask(STOP, typed(STOP)))
        self.assert_goes_on()

    def test_no_request(self):
        self.stop()
        self.caller.send(b"x" * 40)
        self.assertEqual(b"", self.caller.recv(64))
        self.assert_alive(self.program)


case.main()
