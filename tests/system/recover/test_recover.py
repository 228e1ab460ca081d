#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --recover: faults of the program, and what comes of them.

    test_recover.py DIRECTORY-OF-COMMANDS
"""
import os
import signal
import subprocess
import sys
import unittest

import lab
import processes
from lab import wait_until


class Recover(lab.Case):
    def test_killed_program_comes_back(self):
        """Again and again; it ends as it would have ended, with its own status, and told everything once."""
        supervisor = self.count(status=7)
        for generation in range(3):
            self.await_images(2)
            os.kill(self.pid_of(supervisor), signal.SIGKILL)
            self.await_recovery(supervisor, generation + 1)
        self.assertEqual(self.let_end(supervisor), 7)
        lines = self.errors().splitlines()
        self.assertEqual(len(lines), 6, self.errors())
        for fault, recovery in zip(lines[::2], lines[1::2]):
            self.assertRegex(fault, r"^cr_run: \d\d:\d\d:\d\d \S+: process \d+ was killed by SIGKILL$")
            self.assertRegex(recovery, r"^cr_run: \d\d:\d\d:\d\d process \d+ was killed by SIGKILL; "
                                       r"process .* is back from "
                                       r"\S+/one/context.\d{6} after .*: .* of its work is done again$")

    def test_fault_of_its_own(self):
        supervisor = self.python("""
import os, time
first = not os.path.exists("once")
for number in range(1, 200):
    print(number, flush=True)
    time.sleep(0.005)
while not os.path.exists("one/latest"):
    time.sleep(0.005)
if not os.path.exists("once"):
    open("once", "w").close()
    os.kill(os.getpid(), 11)
""")
        self.assertEqual(supervisor.wait(lab.PATIENCE), 0, self.errors())
        self.assertIn("was killed by SIGSEGV", self.errors())
        self.assertEqual(self.numbers(), list(range(1, 200)))

    def test_first_start_that_fails_leaves_nothing(self):
        self.environment["CRYO_LIBDIR"] = self.path("nowhere")
        supervisor = self.count()
        self.assertEqual(supervisor.wait(lab.PATIENCE), 22, self.errors())
        self.assertFalse(os.path.exists(self.path("one")))

    def test_own_end_is_no_fault(self):
        supervisor = self.python("import sys; sys.exit(75)", interval="1h")
        self.assertEqual(supervisor.wait(lab.PATIENCE), 75)
        self.assertEqual(self.errors(), "")
        self.assertEqual(self.images(), [])

    def test_policy_makes_an_exit_a_fault(self):
        supervisor = self.python("import sys; print(1, flush=True); sys.exit(75)", interval="1h",
                                 recover=self.policy("[[fault]]\nexits = [75]\nlimit = 2\n"))
        self.assertEqual(supervisor.wait(lab.PATIENCE), 75)
        self.assertEqual(self.numbers(), [1, 1, 1])
        self.assertIn("it was begun again 2 times and has come to no image", self.errors())

    def test_without_an_image_it_is_begun_again(self):
        with open(self.path("in"), "w", encoding="ascii") as file:
            file.write("one\ntwo\n")
        text = """
import os, signal, sys
print(1 if sys.stdin.readline() == "one\\n" else 2, flush=True)
if not os.path.exists("once"):
    open("once", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
        with open(self.path("in"), "rb") as file:
            supervisor = self.python(text, interval="1h", stdin=file)
            self.assertEqual(supervisor.wait(lab.PATIENCE), 0)
        self.assertEqual(self.numbers(), [1, 1])

    def test_without_an_image_a_pipe_is_not_read_again(self):
        text = "import os; input(); os.kill(os.getpid(), 9)"
        supervisor = self.python(text, interval="1h", stdin=subprocess.PIPE)
        supervisor.stdin.write(b"one\n")
        supervisor.stdin.close()
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGKILL)
        self.assertIn("it would miss what was read of its standard input", self.errors())

    def test_policy_may_refuse_the_beginning(self):
        supervisor = self.python("import os; os.kill(os.getpid(), 9)", interval="1h",
                                 recover=self.policy('[recovery]\nwithout_image = "give-up"\n'))
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGKILL)
        self.assertIn("is not brought back: there is no image yet", self.errors())

    def test_tree_is_ended_whole_and_nobody_else(self):
        """A process in the group of the program that is not the program's is left alone."""
        supervisor = self.python("""
import os, time
if os.fork() == 0:
    os.setsid()
    os.fork()
while True:
    time.sleep(0.01)
""", start_new_session=False, process_group=0)
        stranger = subprocess.Popen(["sleep", "1000"], process_group=supervisor.pid)
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        wait_until("three processes", lambda: len(self.pythons(supervisor)) == 3)
        self.await_images(2)
        before = self.started(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)

        def three():  # a copy from which an image is written is one of them until it has its name
            after = self.started(supervisor)
            return after if len(after) == 3 else None
        self.assertEqual(before & wait_until("three processes again", three), set())
        self.assertIsNone(stranger.poll())

    def start_by_exec(self, before):
        """By a shell that has a child already, and becomes cr_run."""
        return self.spawn("sh", "-c", before + ' exec "$@"', "sh", lab.tool("cr_run"), "--recover",
                          "--interval", "100ms", "--into", "one", sys.executable, "-c",
                          lab.COUNT.format(status=0))

    def number_in(self, name):
        number = int(wait_until(name, lambda: self.text(name).rstrip("\n")))
        self.others.append(number)
        return number

    def test_children_from_before_are_left_alone(self):
        supervisor = self.start_by_exec("sleep 1000 & echo $! > earlier;")
        earlier = self.number_in("earlier")
        self.await_images()
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertEqual(self.let_end(supervisor), 0)
        self.assertTrue(processes.exists(earlier))

    def test_what_children_from_before_leave_is_not_ended(self):
        supervisor = self.start_by_exec(
            "sh -c 'sleep 1000 & echo $! > left; echo $$ > earlier; wait' &")
        left, earlier = self.number_in("left"), self.number_in("earlier")
        self.await_images()
        os.kill(earlier, signal.SIGKILL)
        wait_until("its child is ours", lambda: left in processes.children(supervisor.pid))
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGKILL)
        # A copy of the program, from which an image was written, may be named beside it.
        self.assertRegex(self.errors(), rf"process [\d, ]*\b{left}\b[\d, ]* may not be one of its own")
        self.assertTrue(processes.exists(left))

    def test_daemon_is_left_alone(self):
        supervisor = self.python("""
import os, time
if os.fork() == 0:
    os.setsid()
    with open("daemon.tmp", "w") as file:
        print(os.getpid(), file=file)
    os.rename("daemon.tmp", "daemon")
    while True:
        time.sleep(1)
while not os.path.exists("daemon"):
    time.sleep(0.01)
""", interval="1h")
        self.assertEqual(supervisor.wait(lab.PATIENCE), 0)
        self.others.append(int(self.text("daemon")))
        self.assertTrue(processes.exists(self.others[-1]))
        self.assertIn("goes on without its first one", self.errors())

    def test_refusals(self):
        for words, code, text in (
                (("--recover", "srun", "-n", "2", "true"), 255, "bring it back with ompi-restart"),
                (("--recover", "--mpi", "true"), 255, "only if cr_run starts its launcher"),
                (("--recover", "--omit", "true"), 255, "--omit exclude each other"),
                (("--recover=none.toml", "true"), 2, "none.toml"),
                (("--recover=" + self.bad_policy(), "true"), 22, "did you mean 'limit'?"),
                (("--recover", "policy.toml", "true"), 255, "--recover=policy.toml"),
                (("--recover", "--interval", "often", "true"), 22, "often")):
            done = subprocess.run([lab.tool("cr_run"), *words], cwd=self.top, capture_output=True,
                                  text=True, env=self.environment, timeout=lab.PATIENCE, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        for words, code in ((("nowhere",), 127), (("true",), 0), (("false",), 1)):
            done = subprocess.run([lab.tool("cr_run"), "-q", "--recover", *words], cwd=self.top,
                                  capture_output=True, text=True, env=self.environment,
                                  timeout=lab.PATIENCE, check=False)
            self.assertEqual(done.returncode, code, done.stderr)

    def bad_policy(self):
        self.policy("[[fault]]\nlimitt = 3\n")
        return "policy.toml"


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
