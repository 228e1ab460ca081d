# SPDX-License-Identifier: Apache-2.0
"""Programs whose TCP connections lead to the test itself, which is outside of what is saved. All of
it happens in a network namespace of the test's own, whose packet filter it may use.

    class Topic(outside.Outside):
        def test_one(self):
            program, peer = self.call()
            self.away(program, "--kill", "-f", "image")
            self.assert_both_ways(self.restart("-q", "image"), peer, 0)
    outside.main()
"""
import contextlib
import ctypes
import fcntl
import socket
import struct
import sys

import case
import processes

SIOCOUTQ = 0x5411
DROP_FROM_BOUNDING_SET, CAP_NET_ADMIN, CAP_NET_RAW = 24, 12, 13
ESTABLISHED, SYN_SENT, FIN_WAIT1, CLOSED, CLOSE_WAIT, LAST_ACK, CLOSING = 1, 2, 4, 7, 8, 9, 11
PATTERN = bytes(range(251)) * 80_000
FAMILIES = {  # the program's family and address, and the address that the test listens at
    "IPv4": ("AF_INET", "127.0.0.1", "127.0.0.1"),
    "IPv6": ("AF_INET6", "::1", "::1"),
    "IPv4 in IPv6": ("AF_INET6", "::ffff:127.0.0.1", "127.0.0.1"),
}

# What the program does with its connection, on request. Each end sends the pattern's bytes in turn.
WORKS = """
import os, socket
PATTERN = bytes(range(251)) * 80000
sent = taken = 0
def act(word, *rest):
    global sent, taken, link
    if word == "fill":
        link.setblocking(False)
        try:
            while True:
                sent += link.send(PATTERN[sent:sent + 65536])
        except BlockingIOError:
            print("sent", sent, flush=True)
        link.setblocking(True)
    elif word == "send":
        link.sendall(PATTERN[sent:sent + int(rest[0])])
        sent += int(rest[0])
        print("sent", sent, flush=True)
    elif word == "take":
        left = int(rest[0])
        while left > 0:
            got = link.recv(min(left, 65536))
            if not got or got != PATTERN[taken:taken + len(got)]:
                print("wrong after", taken, len(got), flush=True)
                return
            taken += len(got)
            left -= len(got)
        print("taken", taken, flush=True)
    elif word == "accept":
        link = listener.accept()[0]
        print("accepted", flush=True)
    elif word == "shut":
        link.shutdown(socket.SHUT_WR)
    elif word == "end":
        print(link.recv(1), flush=True)
    elif word == "state":
        print(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0], flush=True)
    elif word == "reuse":
        print(link.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR), flush=True)
    elif word == "last":
        link.recv(1)
        link.sendall(b"bye")
        os._exit(0)
"""
CALLS = WORKS + """
link = socket.socket(socket.{0})
link.connect(({1!r}, {2}))
"""
ACCEPTS = WORKS + """
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
"""
ACT = "act(*line.split())"


def filter_packets(commands):
    """Of nft, by the library that Cryo uses as well."""
    library = ctypes.CDLL("libnftables.so.1")
    library.nft_ctx_new.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.nft_ctx_new(0))
    done = library.nft_run_cmd_from_buffer(context, commands.encode())
    library.nft_ctx_free(context)
    if done != 0:
        raise OSError(commands)


@contextlib.contextmanager
def lost(way, port):
    """Packets to this port of TCP (dport), or from it (sport), are sent and do not arrive."""
    filter_packets("add table inet lost; add chain inet lost coming "
                   "{ type filter hook input priority 0; }; "
                   f"add rule inet lost coming tcp {way} {port} drop")
    try:
        yield
    finally:
        filter_packets("delete table inet lost")


def without(capability):
    """For preexec_fn."""
    return lambda: ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


def state_of(peer):
    return peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


class Outside(case.Case):
    def setUp(self):
        super().setUp()
        self.given = 0  # bytes that the test has sent

    def sysctl(self, name, value):
        """Of the test's own network."""
        path = f"/proc/sys/net/ipv4/{name}"
        with open(path, encoding="ascii") as old:
            before = old.read()

        def put(text):
            with open(path, "w", encoding="ascii") as new:
                new.write(text)
        self.addCleanup(put, before)
        put(str(value))

    def call(self, family="IPv4", setup="", segment=None):
        """A program that has called, and the test's end of its connection."""
        name, address, here = FAMILIES[family]
        of_test = socket.AF_INET6 if ":" in here else socket.AF_INET
        with socket.create_server((here, 0), family=of_test) as listener:
            port = listener.getsockname()[1]
            if segment:
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
            program = self.start(CALLS.format(name, address, port) + setup, ACT)
            return program, self.own(listener.accept()[0])

    def accept(self):
        """A program that has accepted, the test's end of the connection, and the program's port."""
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c",
                             case.ECHO.format(setup=ACCEPTS, each=ACT))
        port = int(program.stdout.readline())
        self.assertEqual("ready\n", program.stdout.readline())
        peer = self.own(socket.create_connection(("127.0.0.1", port)))
        self.assertEqual("accepted", self.ask(program, "accept"))
        return program, peer, port

    def own(self, peer):
        self.addCleanup(peer.close)
        peer.settimeout(case.PATIENCE)
        return peer

    def ask(self, program, words):
        """What it says after its echo."""
        self.assert_alive(program, words)
        return program.stdout.readline().strip()

    def give(self, peer, size):
        peer.sendall(PATTERN[self.given:self.given + size])
        self.given += size

    def await_arrival(self, peer):
        """Of all that the test has sent, in the program's socket."""
        case.wait_until("its acknowledgement", lambda: struct.unpack(
            "i", fcntl.ioctl(peer, SIOCOUTQ, bytes(4)))[0] == 0)

    def assert_gets(self, peer, first, last):
        """These bytes of the pattern, from the program."""
        got = b""
        while len(got) < last - first:
            part = peer.recv(last - first - len(got))
            self.assertNotEqual(b"", part, "the connection has ended")
            got += part
        self.assertEqual(PATTERN[first:last], got)

    def assert_established(self, peer):
        self.assertEqual(0, peer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        self.assertEqual(ESTABLISHED, state_of(peer))

    def assert_both_ways(self, program, peer, sent):
        self.give(peer, 1000)
        self.assertEqual(f"taken {self.given}", self.ask(program, "take 1000"))
        self.assertEqual(f"sent {sent + 1000}", self.ask(program, "send 1000"))
        self.assert_gets(peer, sent, sent + 1000)

    def away(self, program, *words):
        """Saves it, and ends it."""
        self.save("--sockets=keep", *words, program.pid)
        program.wait(case.PATIENCE)

    def pid_below(self, restarted):
        """The program under cr_restart."""
        with open(f"/proc/{restarted.pid}/task/{restarted.pid}/children", encoding="ascii") as text:
            return int(text.read().split()[0])


def main():
    """Of root; otherwise the test is skipped."""
    if not processes.have_own_network():
        print("only root can hold packets back, in a network namespace")
        sys.exit(77)
    case.main()
