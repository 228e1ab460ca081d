#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Old ids of processes and threads, and others who start tasks meanwhile or have them already."""
import errno
import os
import subprocess
import sys

import case
from case import processes

THREADS = """
import os, threading
for _ in range(6):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
# Children that live for a moment, as many as can be, until the standard input ends; each keeps its
# id for a fifth of a second.
OTHERS = """
import os, select, sys
living = {}
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    read, write = os.pipe()
    if (pid := os.fork()) == 0:
        os.close(write)
        select.select([read], [], [], 0.2)
        os._exit(0)
    os.close(read)
    living[pid] = write
    while (ended := os.waitpid(-1, os.WNOHANG)[0] if living else 0):
        os.close(living.pop(ended))
"""


# A process with a child that it knows, and what it knows.
FAMILY = """
import os, signal
own = os.getpid()
if (child := os.fork()) == 0:
    os.close(0)
    os.close(1)
    while True:
        signal.pause()
"""
KNOWN = "print(own, child, os.getpid(), flush=True)"


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


class Taking(case.Case):
    def need_old_ids(self): # asked here: with --plain-user it is another user who loads this file
        if not processes.keep_ids():
            self.skipTest("old ids are not to be had")

    def need_choice(self):
        if os.geteuid() != 0:
            self.skipTest("an id cannot be taken by choice")

    def take(self, pid):
        """A process with that id, for the rest of the test. Others may be faster."""
        def taken():
            with case.next_id(pid):
                one = self.spawn("sleep", case.PATIENCE)
            if one.pid != pid:
                self.end(one)
            return one.pid == pid
        case.wait_until(f"the id {pid}", taken)

    def save_and_take_thread(self):
        """A program that was saved and killed, the id of a thread of which is in use now."""
        program = self.start(THREADS)
        tid = max(int(tid) for tid in os.listdir(f"/proc/{program.pid}/task"))
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        self.take(tid)
        return program


class Ids(Taking):
    def setUp(self):
        self.need_old_ids()
        super().setUp()

    def back(self):
        """A restart with the old ids; nothing where it fails."""
        restarted = self.spawn(case.command("cr_restart"), "-q", "image", stderr=subprocess.PIPE)
        restarted.stdin.write("there\n")
        restarted.stdin.flush()
        if restarted.stdout.readline() != "echo there\n":
            raise AssertionError(f"{restarted.wait(case.PATIENCE)}: {restarted.stderr.read()}")
        self.end(restarted)

    def test_beside_others_that_fork(self):
        """Whoever forked next got the id behind the program's own: that of its first thread."""
        program = self.start(THREADS)
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        others = self.spawn(sys.executable, "-S", "-c", OTHERS)
        self.assertEqual("ready\n", others.stdout.readline())
        for attempt in range(5):
            with self.subTest(attempt):
                self.back()
        others.stdin.close()
        self.assertEqual(0, others.wait(case.PATIENCE))

    def test_id_of_a_thread_that_is_in_use(self):
        self.need_choice()
        self.save_and_take_thread()
        failed = self.run_command("cr_restart", "-q", "image")
        self.assertEqual(errno.EBUSY, failed.returncode, failed.stderr)
        self.assertIn("one is in use here", failed.stderr)


class Preferred(Taking):
    """--prefer-pid: the old ids that can be had; new ones are said, with -q too."""

    def save_family(self):
        """The ids of a parent and a child that have been saved and killed."""
        program = self.start(FAMILY, KNOWN)
        self.assert_alive(program)
        own, child, _ = (int(word) for word in program.stdout.readline().split())
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        case.wait_until("its end", lambda: not processes.exists(child))
        return own, child

    def back(self, *before):
        """The ids after the restart: that the program has, and of its child."""
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.spawn(*before, case.command("cr_restart"), "-q", "--prefer-pid",
                                   "image", stderr=said)
        self.assert_alive(restarted)
        now = int(restarted.stdout.readline().split()[2])
        child, = children(now)
        self.addCleanup(case.kill, child)
        return restarted, now, child

    def said(self, restarted):
        """What cr_restart has said by its end."""
        restarted.stdin.close()
        self.assertEqual(0, restarted.wait(case.PATIENCE))
        with open(self.path("said"), encoding="utf-8") as said:
            return said.read()

    def test_all(self):
        self.need_old_ids()
        before = self.save_family()
        restarted, *now = self.back()
        self.assertEqual(before, tuple(now))
        self.assertEqual("", self.said(restarted))

    def test_one_that_is_in_use(self):
        self.need_choice()
        for number, name in enumerate(("parent", "child")):
            with self.subTest(name):
                before = self.save_family()
                self.take(before[number])
                restarted, *now = self.back()
                self.assertNotEqual(before[number], now[number])
                self.assertEqual(before[1 - number], now[1 - number])
                said = self.said(restarted)
                self.assertEqual(1, said.count("\n"), said)
                self.assertIn(f"cr_restart: {before[number]} has a new process id, because the old "
                              "ones are in use here: ", said)

    def test_one_that_is_taken_meanwhile(self):
        """What /proc hides looks free, until a process is to have it: then all get new ids."""
        self.need_choice()
        own, child = self.save_family()

        def taken():
            with case.next_id(child): # not in a group of its own, which would be seen
                one = subprocess.Popen(["sleep", str(case.PATIENCE)])
            if one.pid == child:
                self.addCleanup(one.wait)
                self.addCleanup(one.kill)
                return True
            one.kill()
            one.wait()
            return False
        case.wait_until(f"the id {child}", taken)
        hiding = f'mount --bind . /proc/{child} && exec "$@"'
        restarted, *now = self.back("unshare", "--mount", "sh", "-c", hiding, "sh")
        self.assertNotIn(own, now)
        self.assertNotIn(child, now)
        said = self.said(restarted)
        self.assertEqual(1, said.count("\n"), said)
        self.assertIn(f"cr_restart: {own}, {child} have new process ids, because others were faster",
                      said)

    def test_thread_that_is_in_use(self):
        """A process that no other member knows; its threads' ids are not told."""
        self.need_choice()
        program = self.save_and_take_thread()
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.spawn(case.command("cr_restart"), "-q", "--prefer-pid", "image",
                                   stderr=said)
        self.assert_alive(restarted)
        self.assertEqual([program.pid], children(restarted.pid))
        self.assertEqual("", self.said(restarted))

    def test_without_privilege(self):
        if processes.keep_ids():
            self.skipTest("old ids are to be had")
        own, child = self.save_family()
        restarted, *now = self.back()
        self.assertNotIn(own, now)
        self.assertNotIn(child, now)
        said = self.said(restarted)
        self.assertEqual(1, said.count("\n"), said)
        self.assertIn(f"cr_restart: {own}, {child} have new process ids, because choosing ids needs "
                      "a privilege here", said)

    def test_excluded(self):
        for option in ("--restore-pid", "--no-restore-pid", "--pidns"):
            done = self.run_command("cr_restart", "--prefer-pid", option, "image")
            self.assertEqual(255, done.returncode, done.stderr)
            self.assertIn("--prefer-pid", done.stderr)


case.main(chooses_ids=True)
