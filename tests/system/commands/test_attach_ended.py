#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_checkpoint --attach is killed at a certain one of its steps, and the program goes on."""
import os
import signal
import sys

import attaching
import case

LIBRARY = os.path.abspath(sys.argv.pop())  # end_at_ptrace.c


def blocked_by(program):
    return case.status(program.pid, "SigBlk")


def is_in_agent(pid):
    """Whether its first thread, which stands still, does so in the agent's code."""
    with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
        words = file.read().split()
    if len(words) < 2:
        return False
    at = int(words[-1], 16)
    for line in attaching.maps(pid).splitlines():
        start, end = (int(number, 16) for number in line.split()[0].split("-"))
        if start <= at < end:
            return attaching.AGENT in line
    return False


class Ended(attaching.Attaching):
    def is_killed(self, program, place):
        """Whether the command got there."""
        options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        done = self.checkpoint("--attach", "-f", "image", program.pid,
                               env={**os.environ, "LD_PRELOAD": LIBRARY, "END_AT": place,
                                    "ASAN_OPTIONS": options})
        self.assertIn(done.returncode, (0, -signal.SIGKILL), done.stderr)
        case.wait_until("it is let go", lambda: attaching.tracer(program.pid) == 0)
        return done.returncode != 0

    def survives(self, what, place):
        """False: the command did not get there."""
        with self.subTest(what=what, place=place):
            program = self.run_plain(what)
            before = blocked_by(program)
            killed = self.is_killed(program, place)
            self.assert_alive(program)
            case.wait_until("its signals come as before", lambda: blocked_by(program) == before)
            self.attach(program, "-f", "image")
            self.assert_alive(program)
            self.end(program)
            return killed
        return False

    def survive_all(self, what, part, step):
        steps = 0
        while self.survives(what, f"{part}+{steps * step}"):
            steps += 1
        return steps

    def test_while_it_enters(self):
        self.assertGreater(self.survive_all("threads", 1, 11), 3)

    def test_while_it_leaves(self):
        """Registers, vector registers and blocked signals are given back one after the other."""
        for what in ("threads", "busy"):
            self.assertGreater(self.survive_all(what, 2, 1), 4)

    def test_waits_go_on(self):
        """Nothing but the end of the tracer is left to do."""
        for what in ("polls", "epolls"):
            program = self.run_plain(what)
            case.await_sleep(program.pid)
            self.assertTrue(self.is_killed(program, "detach"))
            self.assert_alive(program)
            self.end(program)

    def test_stands_in_agent(self):
        """The agent begins on one stack: a program that was stopped there is not entered again."""
        for steps in range(20, 400, 10):
            program = self.run_plain()
            os.kill(program.pid, signal.SIGSTOP)
            case.wait_until("its stop", lambda: case.state(program.pid) == "T")
            self.assertTrue(self.is_killed(program, f"1+{steps}"))
            case.wait_until("its stop again", lambda: case.state(program.pid) == "T")
            if is_in_agent(program.pid):
                break
            self.end(program)
        else:
            self.fail("the command was never killed while the agent began")
        done = self.checkpoint("--attach", "-f", "image", program.pid)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("still being entered", done.stderr)
        os.kill(program.pid, signal.SIGCONT)
        self.assert_alive(program)
        self.attach(program, "-f", "image")
        self.assert_alive(program)


if __name__ == "__main__":
    attaching.main()
