#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whom a UNIX socket names as its peer (SO_PEERCRED) after a restart; where that is another one than
before, cr_restart says so."""
import os
import socket
import unittest

import case

ASK = "print(*struct.unpack('3i', one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)), flush=True)"
# A child has made the pair, has passed it on, and has ended.
OF_NOBODY = """
import os, socket, struct
a, b = socket.socketpair()
maker = os.fork()
if maker == 0:
    ends = socket.socketpair()
    socket.send_fds(a, [b"x"], [end.fileno() for end in ends])
    os._exit(0)
one, other = (socket.socket(fileno=fd) for fd in socket.recv_fds(b, 1, 2)[1])
os.waitpid(maker, 0)
a.close(), b.close()
"""
OF_ITSELF = """
import os, socket, struct
one, other = socket.socketpair()
"""
# The user that has made the pair is not the one that the program has now. A change of the user leaves
# a program that may not be looked at (PR_SET_DUMPABLE, 4).
OF_ANOTHER_USER = """
import ctypes, os, socket, struct
os.seteuid(4711)
one, other = socket.socketpair()
os.seteuid(0)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""
# A connection that is not accepted yet.
WAITING = """
import os, socket, struct
listener, one = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
listener.bind(""), listener.listen()
one.connect(listener.getsockname())
"""
# A datagram socket that only a message holds.
IN_A_MESSAGE = """
import socket
a, b = socket.socketpair()
sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
sender.connect("receiver")
socket.send_fds(a, [b"x"], [sender.fileno()])
sender.close()
"""
SAID = "UNIX sockets that name another peer (SO_PEERCRED) than before: "


class Peers(case.Case):
    def saved(self, setup):
        """The process that the socket names; the program has ended."""
        program = self.start(setup, each=ASK)
        self.assert_alive(program)
        named = program.stdout.readline()
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        return int(named.split()[0])

    def restarted(self, *words):
        """The command's id, whom the socket names then, and what the command says."""
        with open(self.path("said"), "w", encoding="utf-8") as said:
            command = self.spawn(case.command("cr_restart"), *words, "image", stderr=said)
        self.assert_alive(command)
        named = command.stdout.readline()
        command.stdin.close()  # cr_restart has told everything when it ends
        command.wait(case.PATIENCE)
        with open(self.path("said"), encoding="utf-8") as said:
            return command.pid, int(named.split()[0]), said.read()

    def test_maker_that_has_ended(self):
        maker = self.saved(OF_NOBODY)
        command, named, said = self.restarted("--no-restore-pid")
        self.assertEqual(command, named)
        self.assertEqual(1, said.count("SO_PEERCRED"), said)
        self.assertIn(SAID + "2: descriptor ", said)
        ids = f"(user {os.geteuid()}, group {os.getegid()})"
        self.assertIn(f" process {maker} {ids} before, process {command} {ids} now", said)

    def test_maker_that_comes_back(self):
        maker = self.saved(OF_ITSELF)
        _, named, said = self.restarted()
        self.assertEqual(maker, named, said)
        self.assertNotIn("SO_PEERCRED", said)

    def test_maker_that_gets_a_new_id(self):
        maker = self.saved(OF_ITSELF)
        command, named, said = self.restarted("--no-restore-pid")
        self.assertEqual(command, named)
        self.assertIn(f" process {maker} ", said)

    @unittest.skipUnless(os.geteuid() == 0, "no other user can be had")
    def test_maker_with_another_user(self):
        """Nothing in an image makes a socket name a user that its program does not have now."""
        maker = self.saved(OF_ANOTHER_USER)
        command, named, said = self.restarted()
        self.assertEqual(command, named)
        group = os.getegid()
        self.assertIn(f" process {maker} (user 4711, group {group}) before, "
                      f"process {command} (user 0, group {group}) now", said)

    def test_connection_that_waits(self):
        listener = self.saved(WAITING)
        _, named, said = self.restarted()
        self.assertEqual(listener, named, said)
        self.assertNotIn("SO_PEERCRED", said)
        command, named, said = self.restarted("--no-restore-pid")
        self.assertEqual(command, named)
        self.assertIn(f" process {listener} ", said)
        self.assertIn(f"name process {command} as who has connected (SO_PEERCRED): 1", said)


class Receivers(case.Case):
    def test_one_that_is_gone_of_a_socket_in_a_message(self):
        """Which has no number that could be told."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(self.path("receiver"))
            program = self.start(IN_A_MESSAGE)
            self.save("--nosync", "-f", "image", program.pid)
            self.end(program)
        os.unlink(self.path("receiver"))
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said)
        self.assert_alive(restarted)

        def text():
            with open(self.path("said"), encoding="utf-8") as said:
                return said.read()
        case.wait_until("the notice", lambda: "it is not connected" in text(), describe=text)
        self.assertIn("a descriptor in a message: there is no receiver at "
                      + self.path("receiver"), text())


if __name__ == "__main__":
    case.main()
