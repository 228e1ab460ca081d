#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCP connections to a process outside the tree (--sockets=keep) that one side or both have shut
down, or that are being opened; and those that cannot be emptied. No byte is lost or doubled, and
each end is where it was."""
import errno
import functools
import socket

import case
import outside

CALLING = outside.WORKS + """
link = socket.socket(socket.{0})
link.setblocking(False)
try:
    link.connect(({1!r}, {2}))
except BlockingIOError:
    link.setblocking(True)
"""
BOTH_ENDS = outside.WORKS + """
listener = socket.create_server(("127.0.0.1", 0))
link = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
"""
SWAP = "exec('link, other = other, link') if line == 'swap\\n' else act(*line.split())"


def in_each_family(test):
    """A test of a program and its peer."""
    @functools.wraps(test)
    def all_of_them(self):
        for family in outside.FAMILIES:
            with self.subTest(family):
                self.given = 0
                program, peer = self.call(family)
                test(self, program, peer)
                peer.close()
    return all_of_them


class HalfClosed(outside.Outside):
    def await_state(self, program, state):
        case.wait_until(f"state {state}", lambda: self.ask(program, "state") == str(state),
                        describe=lambda: f"it is in {self.ask(program, 'state')}")

    def end_of_peer(self, peer, size):
        """After so many bytes; the program has all of it."""
        self.give(peer, size)
        peer.shutdown(socket.SHUT_WR)
        self.await_arrival(peer)

    def back_in(self, state):
        restarted = self.restart("-q", "image")
        self.await_state(restarted, state)
        return restarted

    def assert_both_end(self, restarted, peer, sent):
        """Each has all that the other one has sent, 5000 bytes and so many, and the end."""
        self.assertEqual("taken 5000", self.ask(restarted, "take 5000"))
        self.assertEqual("b''", self.ask(restarted, "end"))
        self.assert_gets(peer, 0, sent)
        self.assertEqual(b"", peer.recv(1))
        self.await_state(restarted, outside.CLOSED)
        self.end(restarted)

    def assert_sends_and_ends(self, restarted, peer, sent):
        """It adds something, and its own end."""
        self.assertEqual(f"sent {sent + 1000}", self.ask(restarted, "send 1000"))
        self.assert_alive(restarted, "shut")
        self.assert_both_end(restarted, peer, sent + 1000)

    @in_each_family
    def test_peer_first(self, program, peer):
        """The program may go on sending (CLOSE_WAIT)."""
        self.end_of_peer(peer, 5000)
        self.assertEqual("sent 3000", self.ask(program, "send 3000"))
        self.await_state(program, outside.CLOSE_WAIT)
        self.away(program, "--kill", "-f", "image")
        self.assert_sends_and_ends(self.back_in(outside.CLOSE_WAIT), peer, 3000)

    @in_each_family
    def test_peer_first_and_queue_full(self, program, peer):
        """What was never sent is sent."""
        sent = int(self.ask(program, "fill").split()[1])
        self.end_of_peer(peer, 5000)
        self.away(program, "--kill", "-f", "image")
        restarted = self.back_in(outside.CLOSE_WAIT)
        self.assert_alive(restarted, "shut")
        self.assert_both_end(restarted, peer, sent)

    def test_peer_first_and_read(self):
        """The program has read the end already, and reads it again."""
        program, peer = self.call()
        self.end_of_peer(peer, 5000)
        self.assertEqual("taken 5000", self.ask(program, "take 5000"))
        self.assertEqual("b''", self.ask(program, "end"))
        self.away(program, "--kill", "-f", "image")
        restarted = self.back_in(outside.CLOSE_WAIT)
        self.assertEqual("b''", self.ask(restarted, "end"))
        self.assertEqual("b''", self.ask(restarted, "end"))
        self.assertEqual("sent 1000", self.ask(restarted, "send 1000"))
        self.assert_gets(peer, 0, 1000)

    def test_peer_first_again(self):
        """Saved and brought back twice."""
        program, peer = self.call()
        self.end_of_peer(peer, 5000)
        self.away(program, "--kill", "-f", "image")
        restarted = self.back_in(outside.CLOSE_WAIT)
        self.assertEqual("sent 3000", self.ask(restarted, "send 3000"))
        self.save("--sockets=keep", "--kill", "-f", "image", self.pid_below(restarted))
        restarted.wait(case.PATIENCE)
        self.assert_sends_and_ends(self.back_in(outside.CLOSE_WAIT), peer, 3000)

    @in_each_family
    def test_both_and_peer_first(self, program, peer):
        """The program's end has not arrived (LAST_ACK), nor what it has sent in front of that."""
        self.end_of_peer(peer, 5000)
        with outside.lost("dport", peer.getsockname()[1]):
            self.assertEqual("sent 3000", self.ask(program, "send 3000"))
            self.assert_alive(program, "shut")
            self.await_state(program, outside.LAST_ACK)
            self.away(program, "--kill", "-f", "image")
            restarted = self.back_in(outside.LAST_ACK)
        self.assert_both_end(restarted, peer, 3000)

    @in_each_family
    def test_both_and_peer_first_and_queue_full(self, program, peer):
        """The program's end waits behind what was never sent."""
        sent = int(self.ask(program, "fill").split()[1])
        self.end_of_peer(peer, 5000)
        self.assert_alive(program, "shut")
        self.await_state(program, outside.LAST_ACK)
        self.away(program, "--kill", "-f", "image")
        self.assert_both_end(self.back_in(outside.LAST_ACK), peer, sent)

    @in_each_family
    def test_both_and_program_first(self, program, peer):
        """The program's end has not arrived (CLOSING), nor has the peer heard of its own."""
        with outside.lost("dport", peer.getsockname()[1]):
            self.assertEqual("sent 3000", self.ask(program, "send 3000"))
            self.assert_alive(program, "shut")
            self.await_state(program, outside.FIN_WAIT1)
            self.give(peer, 5000)
            peer.shutdown(socket.SHUT_WR)
            self.await_state(program, outside.CLOSING)
            self.away(program, "--kill", "-f", "image")
            restarted = self.back_in(outside.CLOSING)
        self.assert_both_end(restarted, peer, 3000)

    @in_each_family
    def test_both_and_program_first_and_queue_full(self, program, peer):
        """The program's end waits behind what was never sent."""
        sent = int(self.ask(program, "fill").split()[1])
        self.assert_alive(program, "shut")
        self.await_state(program, outside.FIN_WAIT1)
        self.end_of_peer(peer, 5000)
        self.await_state(program, outside.CLOSING)
        self.away(program, "--kill", "-f", "image")
        self.assert_both_end(self.back_in(outside.CLOSING), peer, sent)

    def test_end_cannot_be_told(self):
        """As a privilege is missing, or a packet filter is in the way: the program goes on, or its
        connection waits."""
        program, peer = self.call()
        self.end_of_peer(peer, 5000)
        done = self.checkpoint("--retry=0", "--sockets=keep", "--kill", "-f", "image", program.pid,
                               preexec_fn=outside.without(outside.CAP_NET_RAW))
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("CAP_NET_RAW", done.stderr)
        with outside.lost("sport", peer.getsockname()[1]):
            said = self.refuse(errno.ENOTSUP, "--retry=0", "--sockets=keep", "--kill", "-f",
                               "image", program.pid)
        self.assertIn("does not arrive", said)
        self.assertEqual("sent 3000", self.ask(program, "send 3000"))
        self.away(program, "--kill", "-f", "image")
        done = self.run_command("cr_restart", "--no-restore-pid", "image",
                                preexec_fn=outside.without(outside.CAP_NET_RAW))
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("CAP_NET_RAW", done.stderr)
        with outside.lost("sport", peer.getsockname()[1]):
            done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(errno.ENOTSUP, done.returncode, done.stderr)
        self.assertIn("does not arrive", done.stderr)
        self.assertIn("--sockets=close", done.stderr)
        self.assert_sends_and_ends(self.back_in(outside.CLOSE_WAIT), peer, 3000)

    def test_being_opened(self):
        """Its first packet is lost, or the answer to that."""
        for family, (name, address, here) in outside.FAMILIES.items():
            for way in ("dport", "sport"):
                with self.subTest(f"{family} {way}"):
                    self.given = 0
                    of_test = socket.AF_INET6 if ":" in here else socket.AF_INET
                    listener = self.own(socket.create_server((here, 0), family=of_test))
                    port = listener.getsockname()[1]
                    with outside.lost(way, port):
                        program = self.start(CALLING.format(name, address, port), outside.ACT)
                        self.assertEqual(str(outside.SYN_SENT), self.ask(program, "state"))
                        self.away(program, "--kill", "-f", "image")
                    restarted = self.restart("-q", "image")
                    peer = self.own(listener.accept()[0])
                    self.assert_both_ways(restarted, peer, 0)
                    self.end(restarted)
                    self.assertEqual(b"", peer.recv(1))

    def test_both_ends_are_saved(self):
        """More was sent than the other end has room for: so it cannot be emptied, and is kept."""
        program = self.start(BOTH_ENDS, SWAP)
        sent = int(self.ask(program, "fill").split()[1])
        said = self.refuse(errno.ENOTSUP, "--retry=0", "--kill", "-f", "image", program.pid)
        self.assertIn("more is on its way", said)
        self.away(program, "--kill", "-f", "image")
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted, "swap")
        self.assertEqual(f"taken {sent}", self.ask(restarted, f"take {sent}"))
        self.assertEqual(f"sent {sent + 1000}", self.ask(restarted, "send 1000"))
        self.assert_alive(restarted, "swap")
        self.assertEqual(f"taken {sent + 1000}", self.ask(restarted, "take 1000"))

    def test_much_is_unread(self):
        """More than a fresh connection would take at once."""
        self.sysctl("tcp_rmem", "4096 16777216 16777216")
        program, peer = self.call()
        self.give(peer, 3_000_000)
        self.await_arrival(peer)
        self.away(program, "--kill", "-f", "image")
        restarted = self.restart("-q", "image")
        self.assertEqual("taken 3000000", self.ask(restarted, "take 3000000"))
        self.assert_both_ways(restarted, peer, 0)


if __name__ == "__main__":
    outside.main()
