#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests for several processes: scopes, forwarded checkpoints, and requests that overlap.

    test_scopes.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

import lab

PROC, PGRP, SESS, TREE = range(4)
PROHIBIT_SELF = 1
DUMP_EXEC = 0x200
NOBODY = 0x3fffffff


class Process(lab.Lab):
    """One process and its log, in the directory of another lab."""

    def __init__(self, world, name, *words):
        self.directory, self.image = world.directory, world.image
        self.path = os.path.join(self.directory, name)
        self.program = self.start(*words, client="scopes")
        self.pid = self.program.pid

    def tell(self, what, text=""):
        """Makes LOG.WHAT appear, complete."""
        with open(f"{self.path}.{what}.new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(f"{self.path}.{what}.new", f"{self.path}.{what}")

    def fork(self):
        """Its child, ready."""
        child = object.__new__(Process)
        child.directory, child.image, child.program = self.directory, self.image, None
        child.path = self.path + ".child"
        self.tell("fork")
        child.await_line("ready")
        child.pid = int(child.lines()[0].split()[1])
        return child

    def ask(self, scope, target, image, flags=0):
        """Lets it request a checkpoint, which it goes on to wait for."""
        self.tell("ask", f"{scope} {target} {flags} {image}\n")


class Scopes(unittest.TestCase):
    def setUp(self):
        self.world = lab.Lab()
        self.world.__enter__()  # pylint: disable=unnecessary-dunder-call
        self.addCleanup(self.world.__exit__)

    def members(self, image=None):
        """The pids in an image, of those that have not ended."""
        done = self.world.run("cr_inspect", "--json", image or self.world.image)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)["snapshots"][0]
        alive = sorted(one["pid"] for one in found["members"] if one["state"] == "saved")
        self.assertEqual(len(found["images"]), max(1, len(alive)))
        return alive or [found["root_pid"]]

    def pair(self, *words):
        """Two processes that are no relations."""
        return (Process(self.world, "a", *words), Process(self.world, "b", *words))

    def save(self, process, *options):
        """cr_checkpoint of a process, running."""
        return self.world.run("cr_checkpoint", *options, "-f", self.world.image, str(process.pid))

    def end(self, *processes):
        """All go on, and end as they were meant to."""
        for process in processes:
            process.touch("end")
        for process in processes:
            if process.program is not None:
                self.assertEqual(process.program.wait(lab.PATIENCE), 9, process.log())

    def test_every_scope_with_and_without_self(self):
        a = Process(self.world, "a", "session")
        child = a.fork()
        other = Process(self.world, "b")
        cases = [(PROC, child.pid, [child]), (PGRP, 0, [a, child]), (SESS, 0, [a, child]),
                 (TREE, 0, [a, child]), (TREE, a.pid, [a, child]), (PGRP, a.pid, [a, child]),
                 (SESS, a.pid, [a, child]), (PROC, other.pid, [other]), (TREE, other.pid, [other]),
                 (PGRP, other.pid, [other]), (TREE, child.pid, [child])]
        for count, (scope, target, expected) in enumerate(cases, 1):
            with self.subTest(scope=scope, target=target):
                image = f"{self.world.image}.{count}"
                a.ask(scope, target, image)
                a.await_line("reaped", a.program, count)
                self.assertEqual([line for line in a.log() if line.startswith("reaped")][-1],
                                 "reaped 0")
                self.assertEqual(self.members(image), sorted(one.pid for one in expected))
        self.end(child, a, other)

    def test_requests_for_nobody(self):
        a = Process(self.world, "a")
        for count, scope in enumerate((PROC, PGRP, SESS, TREE), 1):
            a.ask(scope, NOBODY, self.world.image)
            a.await_line("refused", a.program, count)
        a.ask(TREE, 0, self.world.image, PROHIBIT_SELF)
        a.await_line("refused", a.program, 5)
        self.assertEqual(a.log(), [f"refused {errno.ESRCH}"] * 4 + [f"refused {errno.EDEADLK}"])
        self.end(a)

    def test_forward_takes_others_in_once(self):
        a, b = self.pair()
        child = b.fork()
        # Each of them more than once, and each other.
        a.tell("forward", f"{PROC} {b.pid}\n{TREE} {b.pid}\n{PROC} {a.pid}\n{TREE} 0\n"
                          f"{PGRP} {b.pid}\n")
        b.tell("forward", f"{TREE} {a.pid}\n{PROC} {child.pid}\n{PGRP} 0\n")
        child.tell("forward", f"{PROC} {a.pid}\n{PROC} {b.pid}\n")
        done = self.save(a, "--pid")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.members(), sorted([a.pid, b.pid, child.pid]))
        for one, forwards in ((a, 5), (b, 3), (child, 2)):
            one.await_line("callback")
            self.assertEqual(one.log(), [f"enter {PROC}", *["forward 0"] * forwards, "callback 0"])
        self.end(child, a, b)

    def test_forwarded_processes_come_back(self):
        a, b = self.pair()
        a.tell("forward", f"{PROC} {b.pid}\n")
        done = self.save(a, "--pid", "--kill")
        self.assertEqual(done.returncode, 0, done.stderr)
        for one in (a, b):
            one.program.wait(lab.PATIENCE)
        again = self.world.restart("-q")
        self.addCleanup(again.stderr.close)
        a.await_line("callback 1", again)
        b.await_line("callback 1", again)
        b.touch("end")
        a.touch("end")
        self.assertEqual(again.wait(lab.PATIENCE), 9)

    def test_errors_of_forward(self):
        a, b = self.pair()
        a.tell("forward", f"{PROC} {NOBODY}\n{TREE} {NOBODY}\n{PGRP} {NOBODY}\n{SESS} {NOBODY}\n"
                          f"7 {b.pid}\n-1 {b.pid}\n{PROC} -5\n")
        self.assertEqual(self.save(a).returncode, 0)
        a.await_line("callback 0")
        self.assertEqual(a.log()[1:-1], [f"forward {errno.ESRCH}"] * 4 +
                         [f"forward {errno.EINVAL}"] * 3)
        if os.geteuid() != 0:
            a.tell("forward", f"{PROC} 1\n")
            self.assertEqual(self.save(a, "--clobber").returncode, 0)
            a.await_line("callback 0", count=2)
            self.assertEqual(a.log()[-2], f"forward {errno.EPERM}")
        self.end(a, b)

    def test_forward_back_to_who_must_not_be_in_it(self):
        a, b = self.pair("session")
        child = a.fork()
        b.tell("forward", f"{PROC} {a.pid}\n{PGRP} {a.pid}\n{SESS} {a.pid}\n"
                          f"{TREE} {a.pid}\n")
        a.ask(PROC, b.pid, self.world.image, PROHIBIT_SELF)
        b.await_line("callback 0")
        self.assertEqual(b.log(), [f"enter {PROC}", *[f"forward {errno.EDEADLK}"] * 4,
                                   "callback 0"])
        a.await_line("reaped 0")
        # The requester may be deeper in the tree; and a request without the flag takes it in.
        b.tell("forward", f"{TREE} {a.pid}\n")
        child.ask(PROC, b.pid, self.world.image + ".child", PROHIBIT_SELF)
        b.await_line("callback 0", count=2)
        self.assertEqual(b.log()[4:][2:], [f"enter {PROC}", f"forward {errno.EDEADLK}",
                                           "callback 0"])
        child.await_line("reaped 0")
        a.ask(PROC, b.pid, self.world.image + ".a")
        a.await_line("reaped 0", count=2)
        self.assertEqual(b.log()[-2:], ["forward 0", "callback 0"])
        self.assertEqual(self.members(self.world.image + ".a"), sorted([a.pid, b.pid, child.pid]))
        self.end(child, a, b)

    def test_request_in_a_callback_for_one_of_the_same_tree(self):
        """It would wait for the checkpoint that waits for the callback."""
        a = Process(self.world, "a")
        child = a.fork()
        a.tell("beside", f"{PROC} {child.pid} 0 {self.world.image}.beside\n")
        done = self.save(a, "--tree")
        self.assertEqual(done.returncode, 0, done.stderr)
        a.await_line("callback 0")
        self.assertEqual(a.log()[1:], [f"reaped {errno.EBUSY}", "callback 0"])
        self.assertEqual(self.members(), sorted([a.pid, child.pid]))
        self.end(child, a)

    def test_forward_to_an_older_requester(self):
        """One that speaks the protocol as it was when there was no forwarding."""
        magic, version, prepare = 0x6f797243, 3, 10
        a, b = self.pair()
        a.tell("forward", f"{PROC} {b.pid}\n")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as older:
            older.settimeout(lab.PATIENCE)
            older.connect(lab.door(a.pid))
            older.send(struct.pack("<IHH4Q", magic, version, prepare, 0, 0, 0, 0))
            older.send(bytes(5 * 4 + 4096))  # no signal, and no file
            while struct.unpack_from("<IHH", older.recv(64))[2] != prepare:
                pass
        a.await_line("callback -")  # it has gone away
        self.assertEqual(a.log()[1], f"forward {errno.EOPNOTSUPP}")
        self.assertEqual(self.save(a, "--clobber").returncode, 0)
        self.end(a, b)

    def test_forward_to_what_cannot_be_saved_fails_for_all(self):
        a, b = self.pair()
        a.tell("forward", f"{PROC} {os.getpid()}\n{PROC} {b.pid}\n")
        done = self.save(a)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(os.getpid()), done.stderr)
        a.await_line("callback -")
        self.end(a, b)

    def test_failure_of_one_reaches_all(self):
        a, b = self.pair()
        a.tell("forward", f"{PROC} {b.pid}\n")
        b.tell("fail")
        self.assertEqual(self.save(a).returncode, 77)
        for one in (a, b):
            one.await_line("callback")
            self.assertEqual(one.log()[-1], "callback -77")
        self.end(a, b)

    def test_callbacks_of_all_run_at_once(self):
        a, b = self.pair()
        a.tell("forward", f"{PROC} {b.pid}\n")
        a.tell("wait")
        a.ask(PROC, b.pid, self.world.image + ".b")  # not from a: it is the one that waits
        b.await_line("callback")
        a.await_line("reaped")
        b.tell("ask", f"{PROC} {a.pid} 0 {self.world.image}\n")
        b.await_line("enter", count=2)  # while a's callback waits for it
        a.touch("go")
        b.await_line("reaped 0")
        self.assertEqual(self.members(), sorted([a.pid, b.pid]))
        self.end(a, b)

    def test_stop_waits_for_the_slowest_not_for_their_sum(self):
        """No callback of a tree ends before all have begun."""
        tree = [Process(self.world, "a")]
        while len(tree) < 12:
            tree.append(tree[-1].fork())
        for one in tree:
            one.tell("wait")
        tree[0].ask(TREE, 0, self.world.image)
        for one in tree:
            one.await_line("enter")
        for one in tree:
            self.assertEqual(one.log(), [f"enter {TREE}"])
        for one in reversed(tree):
            one.touch("go")
        tree[0].await_line("reaped 0")
        self.assertEqual(self.members(), sorted(one.pid for one in tree))
        for one in tree:
            one.await_line("callback 0")
        self.end(*reversed(tree))

    def test_requests_at_the_same_time(self):
        a, b = self.pair()
        child = a.fork()
        # A later request waits for its turn; all processes get what they asked for.
        for count, (one, scope, target) in enumerate(
                [(a, TREE, 0), (b, TREE, a.pid), (child, PROC, 0)]):
            one.ask(scope, target, f"{self.world.image}.{count}")
        for one in (a, b, child):
            one.await_line("reaped")
            self.assertIn("reaped 0", one.log())
        self.assertEqual(self.members(self.world.image + ".1"), sorted([a.pid, child.pid]))
        self.assertEqual(self.members(self.world.image + ".2"), [child.pid])
        self.end(child, a, b)

    def test_child_that_leaves_the_tree_while_it_is_asked(self):
        a = Process(self.world, "a")
        child = a.fork()
        child.tell("vfork", f"while [ -d '{self.world.directory}' ] && ! [ -e '{child.path}.end' ];"
                            " do sleep 0.01; done\n")
        child.await_line("between")
        with subprocess.Popen(self.world.command("cr_checkpoint", "-f", self.world.image,
                                                 str(a.pid)), stderr=subprocess.PIPE,
                              text=True) as saving:
            # cr_checkpoint gets to the child's children: no answer as long as they share memory.
            a.await_line("enter", saving)
            child.touch("exec")
            self.assertEqual((saving.wait(lab.PATIENCE), saving.stderr.read()), (0, ""))
        self.assertEqual(self.members(), [a.pid, child.pid])
        self.end(child, a)

    def test_member_that_leaves_the_tree_after_it_was_asked(self):
        """Its parent has ended when all stand still: it has been told, and stays in, as an orphan."""
        a = Process(self.world, "a")
        between = a.fork()
        leaving = between.fork()
        a.tell("wait")
        leaving.tell("wait")
        saving = self.start_saving(a, "--tree")
        for one in (a, between, leaving):
            one.await_line("enter", saving)
        between.tell("leave")
        self.world.wait_for(lambda: leaving.pid in lab.processes.children(os.getpid()),
                            "another parent", saving)
        for one in (a, leaving):
            one.touch("go")
        self.assertEqual(saving.wait(lab.PATIENCE), 0)
        self.assertEqual(self.members(f"{a.path}.image"), sorted([a.pid, leaving.pid]))
        for one in (a, leaving):
            one.await_line("callback 0")
            self.assertEqual(one.log(), [f"enter {TREE}", "callback 0"])
        for pid in (a.pid, leaving.pid):
            os.kill(pid, signal.SIGKILL)
        a.program.wait(lab.PATIENCE)
        self.world.image = f"{a.path}.image"
        again = self.world.restart("-q", "--no-restore-pid")  # see below
        self.addCleanup(again.stderr.close)
        for one in (a, leaving):
            one.await_line("callback 1", again)
        a.touch("end")
        self.assertEqual(again.wait(lab.PATIENCE), 2)  # what `between` has ended with is no 9
        leaving.touch("end")

    def need_each_other(self, processes, flags=(0, 0, 0)):
        """Each requests a checkpoint of itself, and forwards it to the next one; all go on."""
        for one, flag in zip(processes, flags):
            one.tell("hold")
            one.tell("wait")
            one.ask(PROC, 0, f"{one.path}.image", flag)
        for one in processes:
            one.await_line("enter")
        for one, other in zip(processes, processes[1:] + processes[:1]):
            one.tell("forward", f"{PROC} {other.pid}\n")
        for one in processes:
            one.await_line("forward 0")
        for one in processes:
            one.touch("go")
        for one in processes:
            one.await_line("reaped")
            self.assertIn("reaped 0", one.log())
            self.assertEqual(self.members(f"{one.path}.image"), sorted(p.pid for p in processes))

    def test_requests_that_need_each_others_processes(self):
        for root in (0, 1):  # the image of the older request, and of the younger one
            with self.subTest(root=root):
                pair = [Process(self.world, f"{name}{root}") for name in "ab"]
                self.need_each_other(pair)
                for one in pair:
                    self.assertEqual(sorted(one.log()),
                                     ["callback 0", f"enter {PROC}", "forward 0", "reaped 0"])
                for one in pair:
                    self.world.kill(one.program)
                self.world.image = f"{pair[root].path}.image"
                # Copies of them that nobody has waited for are in their process groups still.
                again = self.world.restart("-q", "--no-restore-pid")
                self.addCleanup(again.stderr.close)
                for one in pair:
                    one.await_line("callback 1", again)
                for one in (pair[1 - root], pair[root]):
                    one.touch("end")
                self.assertEqual(again.wait(lab.PATIENCE), 9)

    def test_ring_of_requests(self):
        ring = [Process(self.world, name) for name in "abc"]
        self.need_each_other(ring)
        for one in ring:
            self.assertEqual(one.log().count("callback 0"), 1)
        self.end(*ring)

    def test_requests_that_need_each_other_and_cannot_become_one(self):
        a, b = self.pair()
        self.need_each_other([a, b], (DUMP_EXEC, 0))
        # One of the requests has stepped back, and come again.
        given_up = [line for one in (a, b) for line in one.log() if line.startswith("callback -")]
        self.assertEqual(given_up, [f"callback -{errno.EAGAIN}"])
        self.end(a, b)

    def start_saving(self, process, *options, image=None):
        """A running cr_checkpoint, whose messages are in a file."""
        log = tempfile.NamedTemporaryFile("r", dir=self.world.directory)  # pylint: disable=consider-using-with
        self.addCleanup(log.close)
        saving = subprocess.Popen(self.world.command(  # pylint: disable=consider-using-with
            "cr_checkpoint", "-v", *(options or ["--pid"]), "-f", image or f"{process.path}.image",
            str(process.pid)), stdin=subprocess.DEVNULL, stdout=log.fileno(), stderr=log.fileno())
        saving.log = log.name
        return saving

    def await_message(self, saving, text):
        """Waits until a cr_checkpoint has said something."""
        def said():
            with open(saving.log, encoding="utf-8") as file:
                return text in file.read()
        self.world.wait_for(said, text, saving)

    def test_forward_joins_the_checkpoint_under_way(self):
        a, b = self.pair()
        b.tell("wait")
        first = self.start_saving(b)
        b.await_line("enter", first)
        a.tell("forward", f"{PROC} {b.pid}\n")
        second = self.start_saving(a)
        self.await_message(second, "joined")
        b.touch("go")
        for one, saving in ((a, second), (b, first)):
            self.assertEqual(saving.wait(lab.PATIENCE), 0)
            self.assertEqual(self.members(f"{one.path}.image"), sorted([a.pid, b.pid]))
            self.assertEqual(one.log().count("callback 0"), 1)
            self.assertEqual(one.log().count(f"enter {PROC}"), 1)
        self.end(a, b)

    def test_younger_request_joins_the_older_one_that_needs_it(self):
        a, b = self.pair()
        a.tell("hold")
        a.tell("wait")
        b.tell("wait")
        first = self.start_saving(a)
        a.await_line("enter", first)
        second = self.start_saving(b)
        b.await_line("enter", second)
        a.tell("forward", f"{PROC} {b.pid}\n")
        self.await_message(second, "joined")
        b.touch("go")
        a.touch("go")
        for one, saving in ((a, first), (b, second)):
            self.assertEqual(saving.wait(lab.PATIENCE), 0)
            self.assertEqual(self.members(f"{one.path}.image"), sorted([a.pid, b.pid]))
            self.assertEqual(one.log().count("callback 0"), 1)
        self.end(a, b)

    def test_failure_reaches_a_checkpoint_that_has_joined(self):
        a, b = self.pair()
        b.tell("wait")
        b.tell("fail")
        a.tell("forward", f"{PROC} {b.pid}\n")
        first = self.start_saving(b)
        b.await_line("enter", first)
        second = self.start_saving(a)
        self.await_message(second, "joined")
        b.touch("go")
        for one, saving in ((a, second), (b, first)):
            self.assertEqual(saving.wait(lab.PATIENCE), 77)
            one.await_line("callback -77")
            self.assertFalse(os.path.exists(f"{one.path}.image"))
        self.end(a, b)

    def test_end_of_either_of_two_that_have_joined(self):
        for killed in ("host", "guest"):
            with self.subTest(killed=killed):
                a, b = (Process(self.world, f"{name}.{killed}") for name in "ab")
                b.tell("wait")
                a.tell("forward", f"{PROC} {b.pid}\n")
                host = self.start_saving(b)
                b.await_line("enter", host)
                guest = self.start_saving(a)
                self.await_message(guest, "joined")
                {"host": host, "guest": guest}[killed].kill()
                b.touch("go")
                for saving in (host, guest):
                    saving.wait(lab.PATIENCE)
                if killed == "host":
                    self.assertEqual(guest.returncode, errno.ECANCELED)
                    self.assertFalse(os.path.exists(f"{a.path}.image"))
                else:
                    self.assertEqual(host.returncode, 0)
                    self.assertEqual(self.members(f"{b.path}.image"), sorted([a.pid, b.pid]))
                for one in (a, b):
                    one.await_line("callback")
                self.end(a, b)

    def test_same_request_twice(self):
        a = Process(self.world, "a")
        a.tell("wait")
        first = self.start_saving(a)
        a.await_line("enter", first)
        second = self.start_saving(a)
        self.await_message(second, "joined")
        other = self.start_saving(a, image=f"{a.path}.other")
        self.await_message(other, "waiting for the checkpoint")
        a.touch("go")
        for saving in (first, second, other):
            self.assertEqual(saving.wait(lab.PATIENCE), 0)
        # The file that is another one has a checkpoint of its own: its callbacks are told of it.
        self.assertEqual(a.log().count(f"enter {PROC}"), 2)
        self.assertEqual(self.members(f"{a.path}.image"), [a.pid])
        self.assertEqual(self.members(f"{a.path}.other"), [a.pid])
        self.end(a)


if __name__ == "__main__":
    lab.main()
