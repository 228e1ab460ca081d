#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_checkpoint --attach saves what was not started under cr_run, and refuses by name what it
cannot enter."""
import os
import signal
import sys
import unittest

import attaching
import case

PLAIN = "--plain-user" in sys.argv  # which case.main becomes later
YAMA = "/proc/sys/kernel/yama/ptrace_scope"


def yama_scope():
    if not os.path.exists(YAMA):
        return 0
    with open(YAMA, encoding="ascii") as file:
        return int(file.read())


class Attach(attaching.Attaching):
    def test_threads(self):
        self.comes_back("threads")

    def test_tree(self):
        self.comes_back("tree")

    def test_loader_at_work(self):
        self.comes_back("loader")

    def test_restarted_program_is_one_like_any(self):
        program = self.run_plain()
        self.attach(program, "--kill", "-f", "image")
        program.wait()
        restarted = self.restart("-q", "image")
        self.assert_alive(restarted)
        self.save("--kill", "-f", "again", restarted.pid)
        restarted.wait()
        self.assert_good("again")

    def test_child_of_later(self):
        """It has the agent's memory, but no door of its own before it is entered again."""
        program = self.run_plain("forks")
        self.attach(program, "-f", "image")
        self.assert_alive(program)
        done = self.checkpoint("-f", "image", program.pid)
        self.assertNotEqual(0, done.returncode)
        self.attach(program, "--kill", "-f", "image")
        program.wait()
        self.assert_good("image")

    def test_is_offered(self):
        program = self.run_plain()
        done = self.checkpoint("-f", "image", program.pid)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("--attach", done.stderr)
        self.assertNotIn(attaching.AGENT, attaching.maps(program.pid))

    def test_under_cr_run(self):
        program = self.start()
        done = self.attach(program, "-v", "-f", "image")
        self.assertIn("listen already", done.stderr)
        self.assertNotIn(attaching.AGENT, attaching.maps(program.pid))
        self.assert_alive(program)

    def test_static(self):
        program = self.run_plain(program=attaching.STATIC)
        self.refuse_attach(program, "statically linked")
        self.assert_alive(program)

    def test_filtered(self):
        program = self.run_plain("filtered")
        self.refuse_attach(program, "seccomp")
        self.assert_alive(program)

    def test_ended(self):
        program = self.spawn("true")
        program.wait()
        self.refuse_attach(program, f"no process {program.pid}")

    def test_traced(self):
        program = self.run_plain()
        self.assertTrue(case.seize(program.pid))
        self.refuse_attach(program, "traced by")
        self.assert_alive(program)

    @unittest.skipIf(os.geteuid() != 0 or PLAIN, "nobody else's program is to be had")
    def test_other_user(self):
        os.chmod(self.directory, 0o777)
        program = self.run_plain(user=1000, group=1000, extra_groups=[])
        self.refuse_attach(program, "belongs to user 1000", user=33, group=33, extra_groups=[])
        self.attach(program, "-f", "image")  # by root
        self.assert_alive(program)

    @unittest.skipIf(os.geteuid() != 0 or PLAIN, "a mount namespace is root's")
    def test_other_mounts(self):
        program = self.spawn("unshare", "-m", attaching.PROGRAM, "threads")
        self.assertEqual("ready\n", program.stdout.readline())
        self.refuse_attach(program, "mount namespace")
        self.assert_alive(program)

    @unittest.skipUnless(os.geteuid() != 0 and yama_scope() > 0, "no Yama forbids anything")
    def test_yama(self):
        self.refuse_attach(self.run_plain(), "ptrace_scope")


class Stopped(attaching.Attaching):
    def test_stays_stopped(self):
        program = self.run_plain()
        os.kill(program.pid, signal.SIGSTOP)
        case.wait_until("its stop", lambda: case.state(program.pid) == "T")
        self.attach(program, "-f", "image")
        self.assertEqual("T", case.state(program.pid))
        os.kill(program.pid, signal.SIGCONT)
        self.assert_alive(program)


if __name__ == "__main__":
    attaching.main()
