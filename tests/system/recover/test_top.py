#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_top: on a terminal, and without one.

    test_top.py DIRECTORY-OF-COMMANDS
"""
import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import unittest

import lab
import processes
from lab import wait_until

HOME = "\033[H"
LEAVES = "\033[?1049l"
# Starts what it is told in a group of its own, as a shell does; lets it go on when it was stopped.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    status = os.waitpid(pid, os.WUNTRACED)[1]
    os.tcsetpgrp(0, os.getpid())
    if not os.WIFSTOPPED(status):
        break
    print("<stopped>", flush=True)
    input()
    os.tcsetpgrp(0, pid)
    os.kill(pid, signal.SIGCONT)
print(f"<ended {os.waitstatus_to_exitcode(status)}>", flush=True)
input()
"""


class Screen:
    """A terminal, and cr_top on it."""

    def __init__(self, case, *words):
        self.text = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(case.environment)
            os.execv(sys.executable, [sys.executable, "-c", SHELL, lab.tool("cr_top"), *words])
        case.others.append(self.pid)
        case.addCleanup(self.close)
        self.resize(24, 250)

    def close(self):
        if self.terminal is not None:
            os.close(self.terminal)
        self.terminal = None

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                self.text += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError as error: # nobody has it open any more
                assert error.errno == errno.EIO
                break
        return self.text

    def frame(self):
        """The lines of the last screen that was written whole."""
        screens = self.read().split(HOME)
        whole = [one for one in screens[1:] if "\033[J" in one]
        if not whole:
            return []
        return whole[-1].split("\033[J")[0].replace("\033[K", "").replace("\r", "").split("\n")

    def line_of(self, pid):
        return next((line for line in self.frame() if line.split()[:1] == [str(pid)]), None)

    def await_line(self, pid):
        return wait_until("the program's line", lambda: self.line_of(pid))

    def await_text(self, text):
        wait_until(text, lambda: text in self.read())

    def await_sums(self, text):
        wait_until(text, lambda: text in (self.frame() or [""])[0])

    def press(self, key):
        os.write(self.terminal, key.encode())

    def command(self):
        return processes.children(self.pid)[0]

    def echoes(self):
        return bool(termios.tcgetattr(self.terminal)[3] & termios.ECHO)


class Top(lab.Case):
    def sleeper(self):
        program = self.spawn(lab.tool("cr_run"), "sleep", "1000")
        wait_until("its program", lambda: lab.name_of(program.pid) == "sleep" and
                   self.status(program).get("savable"))
        return program

    def run_top(self, *words, **more):
        return subprocess.run([lab.tool("cr_top"), *words], capture_output=True, text=True,
                              env=self.environment, timeout=lab.PATIENCE, check=False,
                              stdin=subprocess.DEVNULL, **more)

    def test_without_a_terminal(self):
        done = self.run_top()
        self.assertEqual((done.returncode, done.stdout), (errno.ENOTTY, ""))
        self.assertIn("standard output is no terminal: --batch", done.stderr)

    def test_without_keys(self):
        terminal, slave = pty.openpty()
        self.addCleanup(os.close, terminal)
        done = subprocess.run([lab.tool("cr_top")], stdin=subprocess.DEVNULL, stdout=slave,
                              stderr=subprocess.PIPE, text=True, env=self.environment, check=False,
                              timeout=lab.PATIENCE)
        os.close(slave)
        self.assertEqual(done.returncode, errno.ENOTTY)
        self.assertIn("standard input is no terminal", done.stderr)

    def test_text(self):
        """Of a program with images: as cr_status says it."""
        supervisor = self.count()
        self.await_images(1)
        pid = self.pid_of(supervisor)
        wait_until("the image", lambda: self.status(supervisor)["bytes"])
        done = self.run_top("--once", "--batch")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\033", done.stdout)
        sums, empty, heading, *lines = done.stdout.splitlines()
        self.assertRegex(sums, r"^\d+ programs?, \d+ jobs?, .*; by age$")
        self.assertEqual(empty, "")
        self.assertEqual(heading.split()[:2], ["PID", "STATE"])
        [line] = [one for one in lines if one.split()[0] == str(pid)]
        self.assertRegex(line, rf"^ *{pid} +running +[\d.]+ \S+ ago +[\d.]+ \S+ +[\d.]+ [KM]iB +0 +0 +"
                               rf"{re.escape(self.path('one'))} +\S*python")
        said = self.status(supervisor)
        self.assertGreater(said["stopped_ns"], 0)
        self.assertIn("; by pid", self.run_top("--once", "--sort", "pid").stdout)

    def test_again_and_again(self):
        program = self.spawn(lab.tool("cr_top"), "--batch", "--delay", "0.1")
        wait_until("three screens", lambda: self.text("out").count("; by age\n") >= 3)
        program.terminate()
        self.assertEqual(program.wait(lab.PATIENCE), -signal.SIGTERM)

    def test_wrong_words(self):
        for words, text in ((("--delay", "0"), "from 0.1 on, not '0'"), (("--delay", "soon"), "not 'soon'"),
                            (("--sort", "name"), "--sort"), (("412",), "412")):
            done = self.run_top(*words)
            self.assertEqual((done.returncode, done.stdout), (255, ""), words)
            self.assertIn(text, done.stderr)

    def test_keys(self):
        program = self.sleeper()
        screen = Screen(self, "--delay", "0.2")
        self.assertIn("sleep 1000", screen.await_line(program.pid))
        self.assertFalse(screen.echoes())
        for order in ("state", "size", "stop", "faults", "pid", "age"):
            screen.press("s")
            screen.await_sums(f"; by {order}")
        screen.press("p")
        screen.await_sums("; paused")
        program.kill()
        program.wait()
        self.assertIsNotNone(screen.line_of(program.pid))
        screen.press("s")
        screen.await_sums("; by state; paused")
        self.assertIsNotNone(screen.line_of(program.pid), "nothing was looked at meanwhile")
        screen.press(" ")
        wait_until("its absence", lambda: screen.line_of(program.pid) is None)
        screen.await_sums("; paused")
        screen.press("p")
        wait_until("that it goes on", lambda: "; paused" not in screen.frame()[0])
        other = self.sleeper()
        screen.await_line(other.pid)
        screen.press("q")
        screen.await_text("<ended 0>")
        self.assertIn(LEAVES, screen.read())
        self.assertTrue(screen.echoes())

    def test_sizes(self):
        """No line is longer than the terminal, and no more are written than there is room for."""
        program = self.sleeper()
        screen = Screen(self, "--delay", "0.2")
        screen.await_line(program.pid)
        screen.resize(3, 30)
        wait_until("three short lines", lambda: len(screen.frame()) == 3 and
                   all(len(line) <= 30 for line in screen.frame()))
        screen.resize(24, 250)
        screen.await_line(program.pid)

    def test_signals(self):
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, -signal.SIGTERM)):
            screen = Screen(self)
            wait_until("a screen", screen.frame)
            os.kill(screen.command(), number)
            screen.await_text(f"<ended {status}>")
            self.assertIn(LEAVES, screen.read())
            self.assertTrue(screen.echoes())

    def test_stopped_and_continued(self):
        screen = Screen(self)
        wait_until("a screen", screen.frame)
        screen.press("\x1a")
        screen.await_text("<stopped>")
        self.assertIn(LEAVES, screen.read().split("<stopped>")[0])
        self.assertTrue(screen.echoes())
        screen.press("\n")
        wait_until("a screen again", lambda: "\033[J" in screen.read().split("<stopped>")[1])
        wait_until("its settings", lambda: not screen.echoes())
        screen.press("q")
        screen.await_text("<ended 0>")

    def test_terminal_is_gone(self):
        screen = Screen(self)
        wait_until("a screen", screen.frame)
        command = screen.command()
        screen.close()
        wait_until("its end", lambda: not processes.exists(command))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
