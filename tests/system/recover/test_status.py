#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_status: what it shows of programs that are supervised, only saved, or were; and that can be.

    test_status.py DIRECTORY-OF-COMMANDS
"""
import json
import os
import signal
import sys
import unittest

import lab
import processes
from lab import wait_until


class Status(lab.Case):
    def test_nothing(self):
        done = self.run_status("1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("process 1: is neither brought back nor saved", done.stderr)

    def test_supervised_program(self):
        supervisor = self.count()
        self.await_images(1)
        pid = self.pid_of(supervisor)
        wait_until("the image", lambda: self.status(supervisor)["checkpoint"])
        said = self.status(supervisor)
        self.assertEqual((said["state"], said["supervisor"], said["pid"], said["user"]),
                         ("running", supervisor.pid, pid, os.geteuid()))
        self.assertEqual((said["faults"], said["recoveries"], said["last_fault"]), (0, 0, None))
        self.assertEqual(said["directory"], self.path("one"))
        self.assertTrue(said["checkpoint"].startswith(self.path("one", "context.")))
        self.assertIn("print(number, flush=True)", said["command"])
        os.kill(pid, signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        said = self.status(supervisor)
        self.assertEqual((said["state"], said["faults"], said["recoveries"]), ("running", 1, 1))
        self.assertEqual(said["last_fault"], f"process {pid} was killed by SIGKILL")
        self.assertTrue(processes.exists(said["pid"]))
        for words in ((), (str(supervisor.pid),), (str(said["pid"]),)):
            done = self.run_status(*words)
            if words: # without, other programs of this machine count, too
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("running", done.stdout)
            self.assertIn(str(said["pid"]), done.stdout)
            self.assertNotIn("\n\n", done.stdout)
        supervisor.terminate()
        supervisor.wait(lab.PATIENCE)
        self.assertEqual(self.run_status(str(supervisor.pid)).returncode, 1)
        self.assertEqual(os.listdir(self.path("runtime", "supervised")), [])

    def test_program_that_is_only_saved(self):
        program = self.spawn(lab.tool("cr_run"), "--interval", "100ms", "--into", "one",
                             sys.executable, "-c", lab.COUNT.format(status=0))
        self.await_images(1)
        said = self.status(program)
        self.assertEqual((said["state"], said["pid"], said["supervisor"]),
                         ("kept", program.pid, None))
        self.assertEqual(said["directory"], self.path("one"))
        self.assertTrue(said["checkpoint"].startswith(self.path("one", "context.")))
        self.assertEqual((said["kind"], said["savable"], said["obstacle"]), ("program", True, None))
        self.assertGreater(said["stopped_ns"], 0)
        # The first image may be of a program that is still on its way to its memory.
        wait_until("an image with the memory", lambda: self.status(program)["bytes"] > 1 << 20)
        self.assertEqual(self.run_status(str(program.pid)).returncode, 0)

    def ready(self, *words):
        """A program that is under cr_run, and nothing more."""
        program = self.spawn(lab.tool("cr_run"), *words)
        wait_until("its agent", lambda: self.status(program).get("savable"))
        return program

    def test_program_that_nothing_saves(self):
        program = self.ready("sleep", "1000")
        wait_until("its program", lambda: self.status(program)["command"] == "sleep 1000")
        wait_until("its sleep", lambda: self.sleeps(program.pid))
        before = self.switches(program.pid)
        said = self.status(program)
        self.assertEqual((said["state"], said["pid"], said["supervisor"], said["processes"]),
                         ("ready", program.pid, None, 1))
        self.assertEqual((said["directory"], said["checkpoint"], said["bytes"]), (None, None, None))
        for words in ((), (str(program.pid),)):
            done = self.run_status(*words)
            self.assertRegex(done.stdout, rf"\b{program.pid}\b")
            self.assertIn("ready", done.stdout)
        self.assertEqual(self.run_status(str(program.pid)).returncode, 0)
        self.assertEqual(self.switches(program.pid), before, "it was not disturbed")

    @staticmethod
    def sleeps(pid):
        """In nanosleep(2) or clock_nanosleep(2), after all that it has waited for before."""
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            return file.read().split()[0] in ("35", "230")

    @staticmethod
    def switches(pid):
        """How often it had a processor."""
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[2])

    def test_program_that_cannot_be_saved_now(self):
        program = self.ready("sleep", "1000")
        os.kill(program.pid, signal.SIGSTOP)
        wait_until("that it is seen", lambda: self.status(program)["savable"] is False)
        said = self.status(program)
        self.assertEqual(said["state"], "unready")
        self.assertIn(f"kill -CONT {program.pid}", said["obstacle"])
        done = self.run_status(str(program.pid))
        self.assertEqual(done.returncode, 1)
        self.assertIn("can be saved    no: ", done.stdout)
        os.kill(program.pid, signal.SIGCONT)
        wait_until("that it is seen", lambda: self.status(program)["savable"])

    def test_tree_is_one_program(self):
        program = self.ready("sh", "-c", "sleep 1000 & sleep 1001 & wait")
        wait_until("its children", lambda: self.status(program)["processes"] == 3)
        child = processes.children(program.pid)[0]
        self.assertEqual(self.run_status(str(child)).returncode, 1)
        os.kill(child, signal.SIGSTOP)
        wait_until("that it is seen", lambda: self.status(program)["savable"] is False)
        self.assertIn(f"process {child} ", self.status(program)["obstacle"])
        os.kill(child, signal.SIGCONT)

    def test_program_that_is_not_under_cr_run(self):
        program = self.spawn("sleep", "1000")
        wait_until("its program", lambda: lab.name_of(program.pid) == "sleep")
        self.assertEqual(self.status(program), {})

    def test_keeper_is_killed(self):
        supervisor = self.count()
        self.await_images(1)
        os.kill(self.keeper_of(supervisor), signal.SIGKILL)
        wait_until("that it is told", lambda: "is not saved any more" in self.errors())
        self.assertIn("makes its images was killed by SIGKILL", self.errors())
        self.assertEqual(self.status(supervisor)["state"], "unsaved")
        self.assertEqual(self.run_status(str(supervisor.pid)).returncode, 1)

    def test_all_are_killed(self):
        """What they have left is shown as that, and removed by the next supervisor."""
        supervisor = self.count()
        self.await_images(1)
        below = processes.family(supervisor.pid)
        supervisor.kill()
        os.kill(self.status(supervisor)["pid"], signal.SIGKILL)
        supervisor.wait()
        for pid in below:
            wait_until("the end of all", lambda p=pid: not processes.exists(p))
        self.assertEqual(self.status(supervisor)["state"], "ended")
        other = self.spawn(lab.tool("cr_run"), "--recover", "--interval", "1h", "--into", "two",
                           "sleep", "1000")
        self.pid_of(other)
        self.assertEqual(os.listdir(self.path("runtime", "supervised")), [str(other.pid)])

    def test_numbers_of_another_namespace_are_not_shown(self):
        """They are those of other processes here."""
        supervisor = self.count(interval="1h")
        pid = self.pid_of(supervisor)
        file = self.path("runtime", "supervised", str(supervisor.pid))
        with open(file, encoding="utf-8") as said:
            published = json.load(said)
        published["pid_space"] += 1
        with open(file, "w", encoding="utf-8") as said:
            json.dump(published, said)
        self.assertEqual(self.run_status(str(supervisor.pid)).returncode, 1)
        lines = map(json.loads, self.run_status("--json").stdout.splitlines())
        shown = next(one for one in lines if one["directory"] == self.path("one")
                     and one["state"] == "elsewhere")
        self.assertEqual((shown["supervisor"], shown["pid"], shown["own_pid"]), (None, None, None))
        line = next(one for one in self.run_status().stdout.splitlines() if "elsewhere" in one)
        self.assertNotIn(str(pid), line.split())

    def test_directory_of_others_is_not_believed(self):
        supervisor = self.count()
        self.pid_of(supervisor)
        os.chmod(self.path("runtime", "supervised"), 0o777)
        self.assertEqual(self.status(supervisor), {})
        os.chmod(self.path("runtime", "supervised"), 0o700)
        self.assertEqual(self.status(supervisor)["state"], "running")

    @unittest.skipIf(os.geteuid() != 0, "another user is needed")
    def test_other_users(self):
        """Root sees all; others see theirs alone."""
        supervisor = self.count()
        pid = self.pid_of(supervisor)
        done = self.run_as_nobody(str(supervisor.pid))
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertNotIn(str(pid), self.run_as_nobody().stdout)

    def run_as_nobody(self, *words):
        import subprocess  # pylint: disable=import-outside-toplevel
        return subprocess.run([lab.tool("cr_status"), *words], capture_output=True, text=True,
                              env=self.environment, timeout=lab.PATIENCE, check=False,
                              user=65534, group=65534, extra_groups=[], cwd="/")

    def test_json_is_a_line_each(self):
        first = self.count()
        self.pid_of(first)
        second = self.spawn(lab.tool("cr_run"), "--recover", "--interval", "1h", "--into", "two",
                            "sleep", "1000")
        self.pid_of(second)
        lines = self.run_status("--json").stdout.splitlines()
        found = {json.loads(line)["supervisor"] for line in lines}
        self.assertLessEqual({first.pid, second.pid}, found)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
