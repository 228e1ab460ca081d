#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for checkpoints and restarts themselves.

    test_requests.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import json
import os
import signal
import unittest

import lab
from lab import processes

CR_ERESTARTED, CR_ETEMPFAIL = 2363, 2354


class Requests(unittest.TestCase):
    def setUp(self):
        self.lab = lab.Lab()
        self.lab.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.lab.__exit__)

    def ask(self, *words):
        """A requester with these words, started."""
        return self.lab.start(self.lab.image, *words, client="requester")

    def restarted_sees(self, lines, before=()):
        """The copy that a restart makes has LINES in its log, after those that were there BEFORE it
        was saved, and ends as it was meant to."""
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line(lines[0], again)
        self.lab.await_line(lines[-1], again)
        self.assertEqual(self.lab.log(), [*before, *lines])
        self.assertEqual(self.lab.end(again), 9)

    def header(self, image):
        """What is in the first page of an image."""
        told = self.lab.run("cr_inspect", "--json", image).stdout
        return json.loads(told)["snapshots"][0]["images"][0]["header"]

    def test_self(self):
        program = self.ask("self")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["reaped 0", "done 0"])
        self.lab.kill(program)
        before = os.path.getsize(self.lab.image)
        self.restarted_sees([f"reaped {CR_ERESTARTED}", "done 0"])
        self.assertEqual(os.path.getsize(self.lab.image), before)

    def test_self_is_saved_before_the_call_returns(self):
        """In a critical section: it waits then, and is saved before that has been left."""
        taken = ["requester 1", "callback 0"]
        program = self.ask("now")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["idle 1", "pending 1", *taken, "idle 1", "reaped 0",
                                          *taken, "asked 0", "reaped 0", "done 0"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("callback 1", again)
        self.lab.await_line("done 0", again)
        lines = self.lab.log()
        self.assertEqual(lines[lines.index("callback 1"):],
                         ["callback 1", "asked 0", f"reaped {CR_ERESTARTED}", "done 0"])
        self.assertEqual(self.lab.end(again), 9)

    def test_self_is_saved_at_another_try(self):
        """What is in the way passes, and it is still saved before the call returns."""
        program = self.ask("crowded")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["asked 0", "reaped 0", "done 0"], self.lab.output())
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line(f"reaped {CR_ERESTARTED}", again)
        self.lab.await_line("done 0", again)
        self.assertEqual(self.lab.log(), ["asked 0", f"reaped {CR_ERESTARTED}", "done 0"])
        self.assertEqual(self.lab.end(again), 9)

    def test_self_that_handles_a_signal_meanwhile(self):
        """While another thread's section holds the checkpoint up: the handler runs at once, and the
        call returns no earlier for it."""
        program = self.ask("signalled")
        self.lab.await_line("pending", program)
        program.send_signal(signal.SIGUSR1)
        self.lab.await_line("handled", program)
        self.assertEqual(self.lab.log(), ["inside 0", "pending 0", "handled 0"])
        self.lab.touch("leave")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log()[3:], ["leaves 0", "asked 0", "reaped 0", "done 0"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line(f"reaped {CR_ERESTARTED}", again)
        self.lab.await_line("done 0", again)
        self.assertEqual(self.lab.log()[3:], ["leaves 0", "asked 0", f"reaped {CR_ERESTARTED}", "done 0"])
        self.assertEqual(self.lab.end(again), 9)

    def back_from(self, program, image, last):
        """The program, killed and brought back from that image: its last lines, and its end."""
        self.lab.kill(program)
        self.lab.image = image
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line(f"polled {CR_ERESTARTED}", again)
        self.lab.await_line("done 0", again)
        self.assertEqual(self.lab.log(), [*last, f"polled {CR_ERESTARTED}", "done 0"])
        self.assertEqual(self.lab.end(again), 9)

    def test_self_whose_callback_waits_for_the_caller(self):
        """The checkpoint begins before the call returns, which waits for no callback."""
        program = self.lab.start(self.lab.image, "begun", client="asks")
        self.lab.await_line("done", program)
        before = ["pending 0", "asked 0", "callback 0"]
        self.assertEqual(self.lab.log(), [*before, "polled 0", "done 0"])
        self.back_from(program, self.lab.image, before)

    def test_self_while_another_checkpoint_waits_for_the_caller(self):
        own = f"{self.lab.image}.own"
        program = self.lab.start(own, "under_way", client="asks")
        done = self.lab.checkpoint(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.lab.await_line("done", program)
        before = ["asked 0", "callback 0"]
        self.assertEqual(self.lab.log(), [*before, "callback 0", "polled 0", "done 0"])
        self.back_from(program, self.lab.image, before)

    def test_self_without_init(self):
        program = self.ask("self", "noinit")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["reaped 0", "done 0"])
        self.lab.kill(program)
        self.restarted_sees([f"reaped {CR_ERESTARTED}", "done 0"])

    def test_self_with_callbacks(self):
        program = self.ask("self", "callback")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["callback 0", "callback 0", "reaped 0", "done 0"])
        self.lab.kill(program)
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("callback 1", again, 2)
        self.lab.await_line("done 0", again)
        self.assertEqual(sorted(self.lab.log()), ["callback 1", "callback 1", "done 0",
                                                  f"reaped {CR_ERESTARTED}"])
        self.assertEqual(self.lab.end(again), 9)

    def test_self_that_is_killed(self):
        program = self.ask("self", "kill")
        self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGKILL)
        self.restarted_sees([f"reaped {CR_ERESTARTED}", "done 0"])

    def test_deltas(self):
        """Each image leaves out what an earlier one has: of which, the flag says."""
        program = self.ask("deltas")
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["reaped 0"] * 3 + ["done 0"])
        self.lab.kill(program)
        headers = [self.header(f"{self.lab.image}.{i}") for i in range(3)]
        first = headers[0]["id"]
        self.assertEqual([header.get("base_id") for header in headers], [None, first, first])
        self.lab.image += ".2"
        self.restarted_sees([f"reaped {CR_ERESTARTED}", "done 0"], ["reaped 0", "reaped 0"])

    def test_deprecated_calls(self):
        for word in ("file", "cwd"):
            with self.subTest(word), lab.Lab() as self.lab:
                program = self.ask("self", word)
                self.lab.await_line("done", program)
                if word == "cwd":
                    os.rename(f"{self.lab.directory}/context.{program.pid}", self.lab.image)
                self.lab.kill(program)
                os.truncate(self.lab.path, len(self.lab.lines()[0]) + 1)
                again = self.lab.restart("-q")
                self.addCleanup(again.stderr.close)
                self.lab.await_line("done 0", again)
                self.assertEqual(self.lab.end(again), 9)

    def test_deprecated_call_replaces_an_image_that_is_read_only(self):
        self.lab.end(self.ask("self", "file"))
        os.unlink(f"{self.lab.path}.end")
        os.chmod(self.lab.image, 0o400) # as cr_checkpoint leaves it
        with open(self.lab.image, "rb") as earlier: # keeps its inode number from being used again
            program = self.ask("self", "file")
            self.lab.await_line("done 0", program, 2)
            self.assertNotEqual(os.fstat(earlier.fileno()).st_ino, os.stat(self.lab.image).st_ino)
        self.assertEqual(os.stat(self.lab.image).st_mode & 0o777, 0o400)
        self.assertEqual(self.lab.end(program), 9)

    def test_deprecated_call_names_what_it_cannot_replace(self):
        os.mkdir(self.lab.image)
        program = self.ask("self", "file")
        self.lab.await_line("done 0", program)
        self.assertIn(f"cr_request_file: {self.lab.image}: Is a directory", self.lab.output())
        self.assertEqual(self.lab.end(program), 9)
        if os.geteuid() == 0:
            return # to whom everything is writable
        os.rmdir(self.lab.image)
        os.unlink(f"{self.lab.path}.end")
        with open(self.lab.image, "w", encoding="utf-8") as mine:
            mine.write("no image")
        os.chmod(self.lab.image, 0o400)
        program = self.ask("self", "file")
        self.lab.await_line("done 0", program, 2)
        self.assertIn(f"cr_request_file: {self.lab.image}: Permission denied", self.lab.output())
        with open(self.lab.image, encoding="utf-8") as mine:
            self.assertEqual(mine.read(), "no image")
        self.assertEqual(self.lab.end(program), 9)

    def test_deprecated_call_that_is_refused(self):
        """An earlier image stays, and no file appears that is none."""
        earlier = b"an earlier image"
        for there in (True, False):
            with self.subTest(there=there), lab.Lab() as self.lab:
                if there:
                    with open(self.lab.image, "wb") as image:
                        image.write(earlier)
                program = self.ask("self", "refused")
                self.lab.await_line("done 0", program)
                self.assertEqual(os.path.exists(self.lab.image), there)
                if there:
                    with open(self.lab.image, "rb") as image:
                        self.assertEqual(image.read(), earlier)
                self.assertEqual(self.lab.end(program), 9)

    def test_other(self):
        client = self.lab.start("s1", "t1")
        self.lab.path += ".requester"
        program = self.ask("other", str(client.pid))
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log(), ["polled 0", "kind 0", "logged 0", "done 0"])
        self.assertEqual(self.lab.end(program), 9)
        self.lab.kill(client)
        self.lab.path = self.lab.path.removesuffix(".requester")
        again = self.lab.restart("-q")
        self.addCleanup(again.stderr.close)
        self.lab.await_line("t1 1", again)
        self.assertEqual(self.lab.end(again), 9)

    def test_other_that_refuses(self):
        client = self.lab.start("t1:temp")
        self.lab.path += ".requester"
        program = self.ask("other", str(client.pid))
        self.lab.await_line("done", program)
        self.assertEqual(self.lab.log()[:2], [f"polled {CR_ETEMPFAIL}", "kind -2"])
        self.assertGreater(int(self.lab.log()[2].split()[1]), 10)
        self.assertEqual(self.lab.end(program), 9)

    def test_errors(self):
        program = self.ask("errors")
        self.assertEqual(program.wait(lab.PATIENCE), 0, self.lab.log())
        self.assertEqual(self.lab.log(), ["errors 0"])

    def test_restart(self):
        client = self.lab.start("s1")
        self.assertEqual(self.lab.checkpoint(client).returncode, 0)
        pid = client.pid
        self.lab.kill(client)
        log = self.lab.path
        self.lab.path += ".requester"
        newids = not processes.keep_ids()
        program = self.ask("restart", "newids" if newids else "")
        self.lab.await_line("restarted", program)
        if not newids:
            self.assertEqual(self.lab.log(), [f"restarted {pid}"])
        self.lab.path = log
        self.lab.await_line("s1 1", program)
        self.lab.touch("end")
        self.lab.path += ".requester"
        self.assertEqual(program.wait(lab.PATIENCE), 0)
        self.assertEqual(self.lab.log()[1:], ["ended 9"])

    def test_restart_that_fails_late(self):
        client = self.lab.start("s1:rstrt_fails")
        self.assertEqual(self.lab.checkpoint(client).returncode, 0)
        self.lab.kill(client)
        self.lab.path += ".requester"
        program = self.ask("restart", "newids" if not processes.keep_ids() else "")
        self.lab.await_line("restarted", program)
        self.assertEqual(self.lab.log()[0], f"restarted {-2 * 10000 - 2362}")


if __name__ == "__main__":
    lab.main()
