#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that was saved as stopped and comes back so is saved again before it is continued."""
import json
import os
import signal
import subprocess

import case
from case import processes

# Says when it is continued, past the buffer, in which the half of another line may stand.
CONTINUED = """
import os, signal
def say(text):
    return lambda *_: os.write(1, text)
signal.signal(signal.SIGCONT, say(b"continued\\n"))
"""
# Each thread but the first passes on what it is told.
THREADS = CONTINUED + """
import queue, threading
told = [queue.Queue() for _ in range(5)]
def pass_on(number):
    while True:
        told[number + 1].put(told[number].get() + 1)
for number in range(4):
    threading.Thread(target=pass_on, args=(number,), daemon=True).start()
"""
ASK_THREADS = "told[0].put(0); print(told[4].get(), flush=True)"
# A child stops itself; its parent continues it when it is told to.
CHILD = """
import os, signal
ours, its = os.pipe()
if (child := os.fork()) == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
    os.write(its, b"child\\n")
    os._exit(7)
os.waitpid(child, os.WUNTRACED)
"""
CONTINUE_CHILD = """
    child = int(open("/proc/thread-self/children").read())  # it has another id by now
    print(os.waitpid(child, os.WNOHANG), flush=True)
    os.kill(child, signal.SIGCONT)
    print(os.read(ours, 9).decode().strip(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
          flush=True)
"""

# Only there the kernel lets signals of the terminal stop it: this test, which is of the same session
# and outside of its process group, could continue it.
LOOKED_AFTER = {"start_new_session": False, "process_group": 0}


class StoppedAgain(case.Case):
    def stopped(self, program):
        """The first process of it, once no thread of it runs."""
        def first():
            family = processes.family(program.pid)
            return family[0] if family and self.stands(family[0]) else None
        return case.wait_until("its stop", first)

    @staticmethod
    def stands(pid):
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except FileNotFoundError:
            return False
        return all(case.state(task) == "T" for task in tasks)

    def come_back(self, number):
        """Of the image with this number; it stays stopped."""
        program = self.restart("-q", f"image.{number}")
        return program, self.stopped(program)

    def save_and_end(self, number, pid, program):
        self.save("--nosync", "--kill", "-f", f"image.{number}", pid)
        self.assertEqual("", program.stdout.read())
        program.wait(case.PATIENCE)
        self.end(program)

    def assert_goes_on(self, program, pid, *more):
        """It sees that it is continued, and what else has waited until then, and answers."""
        os.kill(pid, signal.SIGCONT)
        program.stdin.write("there\n")  # a handler of Python's may run only after a read
        program.stdin.flush()
        seen = [program.stdout.readline() for _ in range(1 + len(more))]
        self.assertCountEqual(["continued\n", *more], seen)
        self.assertEqual("echo there\n", program.stdout.readline())

    def begin(self, setup, **more):
        program = self.start(setup, **more)
        os.kill(program.pid, signal.SIGSTOP)
        case.wait_until("its stop", lambda: self.stands(program.pid))
        self.save_and_end(1, program.pid, program)

    def test_three_times(self):
        self.begin(CONTINUED)
        for number in (2, 3):
            program, pid = self.come_back(number - 1)
            self.save_and_end(number, pid, program)
        self.assert_goes_on(*self.come_back(3))

    def test_stays_stopped_between(self):
        self.begin(CONTINUED)
        program, pid = self.come_back(1)
        for number in (2, 3):
            self.save("--nosync", "-f", f"image.{number}", pid)
            self.assertTrue(self.stands(pid))
        self.assert_goes_on(program, pid)
        self.save("--nosync", "-f", "image.4", pid)
        self.end(program)
        self.assert_goes_on(*self.come_back(3))
        self.assert_good("image.4")

    def test_threads(self):
        self.begin(THREADS, each=ASK_THREADS)
        program, pid = self.come_back(1)
        self.save_and_end(2, pid, program)
        program, pid = self.come_back(2)
        self.assert_goes_on(program, pid)
        self.assertEqual("4\n", program.stdout.readline())

    def test_signal_waits_for_the_end_of_the_stop(self):
        """One that was sent to the stopped program is seen once, after it is continued."""
        self.begin(CONTINUED + 'signal.signal(signal.SIGUSR1, say(b"usr1\\n"))')
        program, pid = self.come_back(1)
        os.kill(pid, signal.SIGUSR1)
        self.save_and_end(2, pid, program)
        program, pid = self.come_back(2)
        self.assert_goes_on(program, pid, "usr1\n")

    def test_stopped_child(self):
        program = self.start(CHILD, each=CONTINUE_CHILD)
        first = program.pid
        for number in (1, 2):
            self.save("--nosync", "--kill", "--tree", "-f", f"image.{number}", first)
            self.assertEqual("", program.stdout.read())
            self.end(program)
            program = self.restart("-q", f"image.{number}")
            first, _ = case.wait_until("its processes, the second of which stands",
                                       lambda program=program: self.two_of(program))
        self.assert_alive(program)
        self.assertEqual("(0, 0)\n", program.stdout.readline())
        self.assertEqual("child 7\n", program.stdout.readline())

    def two_of(self, program):
        family = processes.family(program.pid)
        return family if len(family) == 2 and self.stands(family[1]) else None

    def signal_in(self, image):
        """By which the process was stopped."""
        shown = json.loads(self.run_command("cr_inspect", "--json", image).stdout)
        return shown["snapshots"][0]["images"][0]["records"]["process"][0]["stop_signal"]

    def stopped_once_more(self, **where):
        """What the restart of the first image says, and by which signal the process stands then."""
        program = self.restart("image.1", stderr=subprocess.PIPE, **where)
        self.save("--nosync", "--kill", "-f", "image.2", self.stopped(program))
        said = program.stderr.read()
        self.end(program)
        return said, self.signal_in("image.2")

    def test_signals_of_the_terminal(self):
        """They stop it again, but for where the kernel ignores them: SIGSTOP does, and it is said."""
        for name in ("SIGTSTP", "SIGTTIN", "SIGTTOU"):
            with self.subTest(name):
                program = self.start(CONTINUED, **LOOKED_AFTER)
                os.kill(program.pid, signal.Signals[name])
                case.wait_until("its stop", lambda pid=program.pid: self.stands(pid))
                self.save_and_end(1, program.pid, program)
                self.assertEqual(signal.Signals[name], self.signal_in("image.1"))
                said, number = self.stopped_once_more(**LOOKED_AFTER)
                self.assertEqual(signal.Signals[name], number)
                self.assertNotIn("SIGSTOP", said)
                said, number = self.stopped_once_more()
                self.assertEqual(signal.SIGSTOP, number)
                self.assertIn(f"was stopped by {name} and is now by SIGSTOP", said)
                program = self.restart("-q", "image.1", **LOOKED_AFTER)
                self.assert_goes_on(program, self.stopped(program))

    def test_stopped_before_it_goes_on(self):
        """By cr_restart --stop, instead of as it was saved."""
        program = self.start(CONTINUED)
        self.save_and_end(1, program.pid, program)
        program = self.restart("-q", "--stop", "image.1")
        self.save_and_end(2, self.stopped(program), program)
        self.assert_goes_on(*self.come_back(2))


case.main()
