#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --recover: signals that a user sends, and the terminal, are for the program and no faults.

    test_recover_signals.py DIRECTORY-OF-COMMANDS
"""
import os
import pty
import signal
import sys
import unittest

import lab
from lab import wait_until

COUNT_SIGNALS = """
import signal, time
taken = []
signal.signal(signal.SIGUSR1, lambda *_: taken.append(1))
signal.signal(signal.SIGUSR2, lambda *_: taken.append(2))
told = 0
print(0, flush=True)
while True:
    time.sleep(0.005)
    while told < len(taken):
        print(taken[told], flush=True)
        told += 1
"""


class Signals(lab.Case):
    def test_user_ends_it(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGABRT):
            with self.subTest(number):
                supervisor = self.python(
                    f"import signal, time; signal.signal({int(number)}, signal.SIG_DFL); "
                    "print(1, flush=True); time.sleep(1000)", interval="1h")
                before = len(self.numbers())
                wait_until("the program", lambda b=before: len(self.numbers()) > b)
                supervisor.send_signal(number)
                self.assertEqual(supervisor.wait(lab.PATIENCE), -number)
        self.assertEqual(self.errors(), "")

    def test_end_that_was_asked_for_may_be_a_crash(self):
        supervisor = self.python("""
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGSEGV))
print(1, flush=True)
time.sleep(1000)
""", interval="1h")
        wait_until("the program", self.numbers)
        supervisor.send_signal(signal.SIGTERM)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGSEGV)
        self.assertEqual(self.errors(), "")

    def test_sent_to_the_program_itself(self):
        """SIGTERM is a wish, whoever sends it; SIGKILL is none."""
        supervisor = self.count()
        self.await_images(1)
        os.kill(self.pid_of(supervisor), signal.SIGTERM)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGTERM)
        self.assertEqual(self.errors(), "")

    def test_signals_are_passed_on_before_and_after_a_recovery(self):
        supervisor = self.python(COUNT_SIGNALS)
        wait_until("the program", self.numbers)
        supervisor.send_signal(signal.SIGUSR1)
        wait_until("the signal", lambda: self.numbers() == [0, 1])
        self.await_images(2)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        supervisor.send_signal(signal.SIGUSR2)
        wait_until("the signal", lambda: self.numbers() == [0, 1, 2])
        supervisor.send_signal(signal.SIGTERM)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGTERM)

    def test_standing_still_is_no_fault(self):
        supervisor = self.count()
        self.await_images(1)
        pid = self.pid_of(supervisor)
        os.kill(pid, signal.SIGSTOP)
        wait_until("its stop", lambda: self.letter(pid) == "T")
        written = self.numbers()
        self.assertEqual(self.status(supervisor)["state"], "running")
        os.kill(pid, signal.SIGCONT)
        wait_until("more numbers", lambda: len(self.numbers()) > len(written) + 10)
        self.assertEqual(self.errors().count("was killed"), 0)

    @staticmethod
    def letter(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def test_killed_while_it_stands_still(self):
        supervisor = self.count()
        self.await_images(2)
        pid = self.pid_of(supervisor)
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertEqual(self.let_end(supervisor), 0)

    def test_user_ends_it_during_a_recovery(self):
        """By the signal, whether the program is back by then or not."""
        supervisor = self.count()
        self.await_images(2)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        wait_until("the fault", lambda: "was killed by SIGKILL" in self.errors())
        supervisor.send_signal(signal.SIGTERM)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGTERM, self.errors())
        self.assertEqual(lab.descendants_of(supervisor.pid), [])

    def on_terminal(self, text):
        """A supervisor that leads a session on a terminal; its other end, and its process."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.top)
            os.environ.update(self.environment)
            os.execv(lab.tool("cr_run"), ["cr_run", "--recover", "--interval", "100ms", "--into", "one",
                                          sys.executable, "-c", text])
        self.addCleanup(os.close, terminal)
        return pid, terminal

    def read_until(self, terminal, word):
        text = b""
        while word not in text:
            text += os.read(terminal, 1000)
        return text

    def test_terminal(self):
        """Its input goes to the program, before and after a recovery, and its keys end it."""
        pid, terminal = self.on_terminal("print('ready')\nwhile True: print('<' + input() + '>')")
        self.others += [pid]
        self.read_until(terminal, b"ready")
        os.write(terminal, b"one\n")
        self.read_until(terminal, b"<one>")
        wait_until("an image", lambda: self.keeper_log() >= 2)
        program = next(p for p in lab.children_of(pid) if "python" in lab.executable_of(p))
        os.kill(program, signal.SIGKILL)
        self.read_until(terminal, b"is back from")
        os.write(terminal, b"two\n")
        self.read_until(terminal, b"<two>")
        self.others += lab.children_of(pid)  # a keeper among them
        os.write(terminal, b"\x03")
        # Python ends by the signal after its KeyboardInterrupt.
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
