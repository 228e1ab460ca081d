#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --recover: signals that a user sends, and the terminal, are for the program and no faults.

    test_recover_signals.py DIRECTORY-OF-COMMANDS
"""
import os
import pty
import select
import signal
import sys
import termios
import unittest

import lab
import processes
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

    def test_signal_while_nobody_is_there_is_kept(self):
        """Between a fault and the restart, which waits here for the last image."""
        self.replace_checkpoint()
        supervisor = self.python(COUNT_SIGNALS, interval="1h")
        wait_until("the program", self.numbers)
        self.hold(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        wait_until("the fault", lambda: "was killed by SIGKILL" in self.errors())
        supervisor.send_signal(signal.SIGUSR1)
        self.release()
        self.await_recovery(supervisor, 1)
        wait_until("the signal", lambda: self.numbers() == [0, 1])

    def test_ignored_signal_asks_for_nothing(self):
        """As in a background command of a script, when Ctrl-C ends another one."""
        supervisor = self.count(interval="1h", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        self.pid_of(supervisor)
        self.make_image(supervisor)
        supervisor.send_signal(signal.SIGINT)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertEqual(self.let_end(supervisor), 0)

    def start_ending(self):
        """A program that was asked to end, has heard that, and goes on."""
        supervisor = self.python("""
import os, signal, time
def heard(*_):
    open("heard", "w").close()
signal.signal(signal.SIGTERM, heard)
print(1, flush=True)
while True:
    time.sleep(0.005)
""", interval="1h")
        wait_until("the program", self.numbers)
        self.make_image(supervisor)
        wait_until("that it is known", lambda: self.status(supervisor)["checkpoint"])
        supervisor.send_signal(signal.SIGTERM)
        wait_until("the signal", lambda: os.path.exists(self.path("heard")))
        return supervisor

    def show_image(self, supervisor, name):
        """What the supervisor sees of an image that has become complete."""
        with open(self.path("one", name), "wb"):
            pass
        wait_until("that it is seen", lambda: self.status(supervisor)["checkpoint"].endswith(name))

    def test_image_that_was_begun_before_the_signal(self):
        """It appears after the signal, and does not show that the program goes on."""
        supervisor = self.start_ending()
        self.show_image(supervisor, "context.999998")
        os.kill(self.pid_of(supervisor), signal.SIGSEGV)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGSEGV)
        self.assertEqual(self.errors(), "")

    def test_image_that_was_begun_after_the_signal(self):
        supervisor = self.start_ending()
        self.show_image(supervisor, "context.999998")
        self.show_image(supervisor, "context.999999")
        os.kill(self.pid_of(supervisor), signal.SIGSEGV)
        self.await_recovery(supervisor, 1)

    def test_user_ends_it_while_a_restart_fails(self):
        self.replace_command("cr_restart", "#!/bin/sh\ntrap 'exit 5' TERM\n: > restarting\n"
                                           "while :; do sleep 0.01; done\n")
        supervisor = self.count(interval="1h")
        self.pid_of(supervisor)
        self.make_image(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        wait_until("the restart", lambda: os.path.exists(self.path("restarting")))
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
        self.assertEqual(processes.family(supervisor.pid), [])

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

    def test_terminal_that_stops_those_behind(self):
        """The supervisor's messages do not stop it, where the program's own output would (stty tostop)."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.top)
            os.environ.update(self.environment)
            modes = termios.tcgetattr(0)
            modes[3] |= termios.TOSTOP
            termios.tcsetattr(0, termios.TCSANOW, modes)
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                os.execv(lab.tool("cr_run"), ["cr_run", "-q", "--recover", "--interval", "1h", "--into",
                                              "one", "sh", "-c",
                                              "[ -e once ] || { : > once; kill -9 $$; }"])
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        self.addCleanup(os.close, terminal)
        self.others += [pid, *wait_until("the supervisor", lambda: processes.children(pid))]
        self.read_until(terminal, b"was killed by SIGKILL")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    def read_until(self, terminal, word):
        text = b""
        while word not in text:
            self.assertTrue(select.select([terminal], [], [], lab.PATIENCE)[0], f"{word} in {text}")
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
        program = next(p for p in processes.children(pid) if "python" in lab.executable_of(p))
        os.kill(program, signal.SIGKILL)
        self.read_until(terminal, b"is back from")
        os.write(terminal, b"two\n")
        self.read_until(terminal, b"<two>")
        self.others += processes.children(pid)  # a keeper among them
        os.write(terminal, b"\x03")
        # Python ends by the signal after its KeyboardInterrupt.
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), -signal.SIGINT)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
