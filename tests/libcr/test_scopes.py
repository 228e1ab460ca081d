#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests for several processes: scopes, forwarded checkpoints, and requests that overlap.

    test_scopes.py COMMANDS CLIENTS [--run] [--uid UID] [unittest's arguments]
"""

import errno
import json
import os
import subprocess
import unittest

import lab

PROC, PGRP, SESS, TREE = range(4)
PROHIBIT_SELF = 1
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

    def test_requests_at_the_same_time(self):
        a, b = self.pair()
        child = a.fork()
        # Whoever comes second waits for its turn; all of them get what they asked for.
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
            # It comes to the child's children, which do not answer as long as they share memory.
            a.await_line("enter", saving)
            child.touch("exec")
            self.assertEqual((saving.wait(lab.PATIENCE), saving.stderr.read()), (0, ""))
        self.assertEqual(self.members(), [a.pid, child.pid])
        self.end(child, a)

    def test_requests_that_need_each_others_processes(self):
        a, b = self.pair()
        for one in (a, b):
            one.tell("hold")
            one.tell("wait")
            one.ask(PROC, 0, f"{one.path}.image")
        for one, other in ((a, b), (b, a)):
            one.await_line("enter")
            other.await_line("enter")
            one.tell("forward", f"{PROC} {other.pid}\n")
        for one in (a, b):
            one.await_line("forward 0")
        for one in (a, b):
            one.touch("go")
        for one in (a, b):
            one.await_line("reaped")
            self.assertIn("reaped 0", one.log())
            self.assertEqual(self.members(f"{one.path}.image"), sorted([a.pid, b.pid]))
        # One of the requests has stepped back, and come again.
        given_up = [line for one in (a, b) for line in one.log() if line.startswith("callback -")]
        self.assertEqual(given_up, [f"callback -{errno.EAGAIN}"])
        self.end(a, b)


if __name__ == "__main__":
    lab.main()
