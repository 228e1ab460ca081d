#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TCP connections to a process outside the tree (--sockets=keep): their peer, this test, goes on
when the program is brought back, and no byte is lost or doubled."""
import errno
import os
import select
import socket

import case
import outside


class Connections(outside.Outside):
    def test_full_queues(self):
        """Unread bytes here, unread bytes there, bytes never sent, and more while it is away."""
        for family in outside.FAMILIES:
            with self.subTest(family):
                self.given = 0
                program, peer = self.call(family)
                self.give(peer, 50_000)
                self.await_arrival(peer)
                sent = int(self.ask(program, "fill").split()[1])
                self.away(program, "--kill", "-f", "image")
                self.assert_established(peer)
                self.give(peer, 1000)
                restarted = self.restart("-q", "image")
                self.assert_gets(peer, 0, sent)
                self.assertEqual("taken 51000", self.ask(restarted, "take 51000"))
                self.assert_both_ways(restarted, peer, sent)
                self.end(restarted)
                self.assertEqual(b"", peer.recv(1))
                peer.close()

    def test_generations(self):
        """Saved and brought back again and again; an image of a past one is refused."""
        program, peer = self.call()
        running, sent = program, 0
        for generation, signal_option in enumerate(["--kill", "--term", "--kill"]):
            image = f"image{generation}"
            self.give(peer, 3000)
            self.await_arrival(peer)
            pid = program.pid if running is program else self.pid_below(running)
            self.save("--sockets=keep", signal_option, "-f", image, pid)
            running.wait(case.PATIENCE)
            self.assert_established(peer)
            running = self.restart("-q", image)
            self.assertEqual(f"taken {self.given}", self.ask(running, "take 3000"))
            self.assert_both_ways(running, peer, sent)
            sent += 1000
            done = self.run_command("cr_restart", "--no-restore-pid", image)
            self.assertEqual(errno.ESTALE, done.returncode, done.stderr)
            self.assertIn("packets have not been held", done.stderr)
            self.assertIn("--sockets=close", done.stderr)
            self.assert_both_ways(running, peer, sent)
            sent += 1000
        self.end(running)
        self.assertEqual(b"", peer.recv(1))

    def test_accepted(self):
        """It shares its port with the listener, which goes on as well."""
        program, peer, port = self.accept()
        self.give(peer, 100)
        self.away(program, "--kill", "-f", "image")
        self.assert_established(peer)
        restarted = self.restart("-q", "image")
        self.assertEqual("taken 100", self.ask(restarted, "take 100"))
        self.assert_both_ways(restarted, peer, 0)
        self.own(socket.create_connection(("127.0.0.1", port)))
        self.assertEqual("accepted", self.ask(restarted, "accept"))

    def test_shut_down(self):
        """For writing: when its peer knows that already, and when that still waits behind data."""
        for filled in (False, True):
            with self.subTest(filled=filled):
                self.given = 0
                program, peer = self.call()
                sent = int(self.ask(program, "fill").split()[1]) if filled else 0
                self.assert_alive(program, "shut")
                self.give(peer, 1000)
                self.away(program, "--kill", "-f", "image")
                restarted = self.restart("-q", "image")
                self.assert_gets(peer, 0, sent)
                self.assertEqual(b"", peer.recv(1))
                self.assertEqual("taken 1000", self.ask(restarted, "take 1000"))
                self.give(peer, 500)
                self.assertEqual("taken 1500", self.ask(restarted, "take 500"))
                self.end(restarted)
                peer.close()

    def test_shut_down_and_received(self):
        """The peer has all of it and the end, but no acknowledgement of that arrives any more: more
        segments than a new connection may send at once."""
        self.sysctl("tcp_slow_start_after_idle", 0)
        program, peer = self.call(segment=500)
        for i in range(1, 11):
            self.assertEqual(f"sent {i * 60_000}", self.ask(program, "send 60000"))
            self.assert_gets(peer, (i - 1) * 60_000, i * 60_000)
        with outside.lost("sport", peer.getsockname()[1]):
            self.assertEqual("sent 620000", self.ask(program, "send 20000"))
            self.assert_alive(program, "shut")
            case.wait_until("the end to arrive",
                            lambda: outside.state_of(peer) == outside.CLOSE_WAIT)
            self.away(program, "--kill", "-f", "image")
        restarted = self.restart("-q", "image")
        self.give(peer, 1000)
        self.assertEqual("taken 1000", self.ask(restarted, "take 1000"))
        self.assert_gets(peer, 600_000, 620_000)
        self.assertEqual(b"", peer.recv(1))
        self.give(peer, 500)
        self.assertEqual("taken 1500", self.ask(restarted, "take 500"))

    def test_not_agreed_on(self):
        """What the system of the peer does without comes back as that."""
        for names in [["tcp_window_scaling"], ["tcp_timestamps", "tcp_sack"]]:
            with self.subTest(names):
                self.given = 0
                for name in names:
                    self.sysctl(name, 0)
                program, peer = self.call()
                self.away(program, "--kill", "-f", "image")
                for name in names:
                    self.sysctl(name, 1)
                restarted = self.restart("-q", "image")
                self.assert_both_ways(restarted, peer, 0)
                self.give(peer, 30_000)  # nobody reads it: there is room for all of it
                self.await_arrival(peer)
                self.assertEqual("taken 31000", self.ask(restarted, "take 30000"))
                self.end(restarted)
                peer.close()

    def test_little_may_wait(self):
        """Less than what was never sent: that is a limit for programs."""
        program, peer = self.call()
        sent = int(self.ask(program, "fill").split()[1])
        self.away(program, "--kill", "-f", "image")
        self.sysctl("tcp_notsent_lowat", 16384)
        restarted = self.restart("-q", "image")
        self.assert_gets(peer, 0, sent)
        self.assert_both_ways(restarted, peer, sent)

    def test_ends_at_once(self):
        """What comes when it is away is the last that it waits for."""
        program, peer = self.call()
        self.assert_alive(program, "last")
        self.away(program, "--kill", "-f", "image")
        peer.sendall(b"x")
        restarted = self.restart("-q", "image")
        self.assertEqual(0, restarted.wait(case.PATIENCE))
        self.assertEqual(b"bye", peer.recv(3, socket.MSG_WAITALL))
        self.assertEqual(b"", peer.recv(1))

    def said(self):
        with open(self.path("said"), encoding="utf-8") as said:
            return said.read()

    def test_brought_back_as_closed(self):
        """On request; the peer is told then."""
        program, peer = self.call()
        self.away(program, "--kill", "-f", "image")
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("--sockets=close", "image", stderr=said)
        self.assert_alive(restarted)
        case.wait_until("the notice", lambda: "is closed now" in self.said())
        with self.assertRaises(ConnectionResetError):
            peer.sendall(b"x")
            peer.recv(1)

    def test_program_goes_on(self):
        """It keeps its connection, which the image does not have."""
        program, peer = self.call()
        said = self.save("--sockets=keep", "-f", "image", program.pid).stderr
        self.assertIn("comes back as closed", said)
        self.assert_both_ways(program, peer, 0)
        self.assert_good("image")

    def test_signal_does_not_end(self):
        """Its program ignores, handles or blocks it: that would go on without its connection."""
        for what, word in [("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "ignores"),
                           ("signal.signal(signal.SIGTERM, lambda *_: None)", "handles"),
                           ("signal.pthread_sigmask(signal.SIG_BLOCK, [15])", "blocks")]:
            with self.subTest(word):
                self.given = 0
                program, peer = self.call(setup=f"import signal; {what}")
                said = self.refuse(errno.ENOTSUP, "--retry=0", "--sockets=keep", "--term", "-f",
                                   "image", program.pid)
                self.assertIn(f"{word} the signal 15", said)
                self.assertIn("--kill", said)
                self.assert_both_ways(program, peer, 0)
                self.assertEqual([], self.files())
                self.away(program, "--kill", "-f", "image")
                restarted = self.restart("-q", "image")
                self.assert_both_ways(restarted, peer, 1000)
                self.end(restarted)
                os.unlink(self.path("image"))
                peer.close()

    def test_saver_is_killed(self):
        """While it holds the connection: the program and its peer notice nothing."""
        program, peer, _ = self.accept()
        reuse = self.ask(program, "reuse")
        end, its_end = os.pipe()
        saver = self.spawn(case.command("cr_checkpoint"), "--sockets=keep", "--kill", "-F", its_end,
                           program.pid, pass_fds=[its_end])
        room = select.poll()
        room.register(its_end, select.POLLOUT)
        case.wait_until("the image to fill the pipe", lambda: not room.poll(0))
        self.give(peer, 1000)
        saver.kill()
        saver.wait()
        os.close(end)
        os.close(its_end)
        self.assertEqual("taken 1000", self.ask(program, "take 1000"))
        self.assert_both_ways(program, peer, 0)
        self.assertEqual(reuse, self.ask(program, "reuse"))

    def test_image_fails(self):
        """When the connection is held already: all goes on."""
        program, peer = self.call()
        limit = ["prlimit", "--fsize=100000", "--", case.command("cr_checkpoint")]
        saver = self.spawn(*limit, "--sockets=keep", "--kill", "-f", "image", program.pid, stderr=-1)
        said = saver.communicate(timeout=case.PATIENCE)[1]
        self.assertNotEqual(0, saver.returncode)
        self.assertIn("File too large", said)
        self.assert_both_ways(program, peer, 0)

    def test_refused(self):
        """By default, and what cannot be kept: by name."""
        program, peer = self.call()
        said = self.refuse(errno.ENOTSUP, "--retry=0", "-f", "image", program.pid)
        self.assertIn("--sockets=keep", said)
        said = self.checkpoint("--retry=0", "--sockets=keep", "--kill", "-f", "image", program.pid,
                               preexec_fn=outside.without(outside.CAP_NET_ADMIN)).stderr
        self.assertIn("CAP_NET_ADMIN", said)
        self.assert_both_ways(program, peer, 0)
        peer.send(b"!", socket.MSG_OOB)
        self.await_arrival(peer)
        said = self.refuse(errno.ENOTSUP, "--retry=0", "--sockets=keep", "--kill", "-f", "image",
                           program.pid)
        self.assertIn("MSG_OOB", said)
        self.assertEqual([], self.files())
        self.assertEqual("sent 2000", self.ask(program, "send 1000"))
        self.assert_gets(peer, 1000, 2000)

    def test_restart_fails(self):
        """When it has the connection already: that still waits for the next restart."""
        with open(self.path("data"), "w", encoding="ascii"):
            pass
        program, peer = self.call(setup="data = open('data')")
        self.give(peer, 1000)
        self.await_arrival(peer)
        self.away(program, "--kill", "-f", "image")
        os.rename(self.path("data"), self.path("elsewhere"))
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertEqual(errno.ENOENT, done.returncode, done.stderr)
        done = self.run_command("cr_restart", "--no-restore-pid", "image",
                                preexec_fn=outside.without(outside.CAP_NET_ADMIN))
        self.assertEqual(errno.EPERM, done.returncode, done.stderr)
        self.assertIn("CAP_NET_ADMIN", done.stderr)
        self.assert_established(peer)
        os.rename(self.path("elsewhere"), self.path("data"))
        restarted = self.restart("-q", "image")
        self.assertEqual("taken 1000", self.ask(restarted, "take 1000"))
        self.assert_both_ways(restarted, peer, 0)


if __name__ == "__main__":
    outside.main()
