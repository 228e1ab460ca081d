#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cr_run --recover: what fails in a recovery: images, the keeper, cr_restart, the supervisor.

    test_recover_failures.py DIRECTORY-OF-COMMANDS
"""
import contextlib
import os
import shutil
import signal
import sys
import unittest

import lab
import processes
from lab import wait_until


class Failures(lab.Case):
    def test_crash_loop_falls_to_older_images_and_ends(self):
        supervisor = self.python("""
import os, time
while not os.path.exists("now"):
    time.sleep(0.005)
os.kill(os.getpid(), 7)
""", recover=self.policy("[[fault]]\nlimit = 2\n"), interval="1h")
        self.pid_of(supervisor)
        for _ in range(3):
            self.make_image(supervisor)
        images = len(self.images())
        self.assertGreaterEqual(images, 2)
        with open(self.path("now"), "w", encoding="ascii"):
            pass
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGBUS)
        text = self.errors()
        # Twice from each of the images.
        self.assertEqual(text.count("was killed by SIGBUS\n"), 2 * images + 1, text)
        self.assertEqual(text.count("is back from"), 2 * images, text)
        self.assertEqual(text.count("is abandoned"), images - 1, text)
        self.assertIn("is not brought back: it was brought back from context.", text)
        self.assertEqual(len(self.images()), 1)
        abandoned = [n for n in os.listdir(self.path("one")) if n.startswith("abandoned.context.")]
        self.assertEqual(len(abandoned), images - 1)

    def test_crash_loop_ends_though_images_are_made_in_it(self):
        """The older image that is tried is followed by newer ones each time."""
        supervisor = self.python("""
import os, signal, time
def newest():
    try:
        return os.stat("one/latest").st_ino
    except FileNotFoundError:
        return 0
def keeper():
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", errors="replace") as file:
                words = file.read().split("\\0")
        except OSError:
            continue
        if os.path.basename(words[0]) == "keeper" and words[1] == str(os.getpid()):
            return int(name)
for step in range(3):
    before = newest()
    while not (pid := keeper()):
        time.sleep(0.005)
    os.kill(pid, signal.SIGUSR1)
    while newest() == before:
        time.sleep(0.005)
os.abort()
""", recover=self.policy("[[fault]]\nlimit = 1\n"), interval="1h", options=("--delta", "none"))
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGABRT)
        self.assertIn("is abandoned", self.errors())
        self.assertIn("is not brought back: it was brought back from context.", self.errors())

    def stop_keeper(self, supervisor):
        keeper = self.keeper_of(supervisor)
        os.kill(keeper, signal.SIGSTOP)
        self.addCleanup(self.let_go_on, keeper)
        wait_until("its stop", lambda: processes.state(keeper) == "T")

    @staticmethod
    def let_go_on(keeper):
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGCONT)

    def test_stopped_keeper_does_not_hold_the_program_up(self):
        supervisor = self.count()
        self.await_images(2)
        self.stop_keeper(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertEqual(self.status(supervisor)["state"], "running")
        self.assertNotIn("no more images are made", self.errors())
        self.assertEqual(self.let_end(supervisor), 0)

    def test_restart_that_fails_for_another_reason_costs_no_image(self):
        """Somebody has the program's id, for example."""
        self.replace_command("cr_restart", "#!/bin/sh\nexit 16\n")
        supervisor = self.count(interval="1h", recover=self.policy("[[fault]]\nlimit = 1\n"))
        self.pid_of(supervisor)
        for _ in range(2):
            self.make_image(supervisor)
        before = self.images()
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.assertEqual(supervisor.wait(lab.PATIENCE), -signal.SIGKILL)
        self.assertIn("for a reason outside of the image", self.errors())
        self.assertEqual(self.images(), before)

    def test_files_that_are_no_images_of_the_run(self):
        """An image that was begun, and a whole one that somebody has copied there."""
        supervisor = self.count()
        self.await_images(2)
        newest = self.images()[-1]
        shutil.copy(self.path("one", newest), self.path("one", "context.999997"))
        for name in ("context.999998", ".context.999999.1"):
            with open(self.path("one", name), "wb") as file:
                file.write(b"CRYO half of an image")
        # The keeper's next one has a better number still.
        wait_until("an image of the keeper's",
                   lambda: max(int(name[len("context."):]) for name in self.images()) > 999998)
        self.await_images(1)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertRegex(self.errors(), r"is back from \S+/context\.(999999|\d{7})")
        self.assertEqual(self.let_end(supervisor), 0)

    def test_copied_image_is_not_used(self):
        """Although the keeper, which knows its own, does not end by itself."""
        supervisor = self.count(interval="1h")
        self.pid_of(supervisor)
        self.make_image(supervisor)
        newest = self.images()[-1]
        shutil.copy(self.path("one", newest), self.path("one", "context.999997"))
        self.stop_keeper(supervisor)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertIn(f"is back from {self.path('one', newest)} after", self.errors())
        self.assertEqual(self.let_end(supervisor), 0)

    def test_damaged_image_is_passed_over(self):
        supervisor = self.count(recover=self.policy("[[fault]]\nlimit = 1\n"), interval="1h",
                                options=("--delta", "none"))
        self.pid_of(supervisor)
        for _ in range(2):
            self.make_image(supervisor)
        newest = self.path("one", self.images()[-1])
        os.chmod(newest, 0o600)
        with open(newest, "r+b") as file:  # its pages: metadata and name stay
            file.seek(os.path.getsize(newest) // 2)
            file.write(b"\xff" * 4096)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        self.assertIn("the restart from", self.errors())
        self.assertIn("is abandoned", self.errors())
        written = len(self.numbers())
        wait_until("more numbers", lambda: len(self.numbers()) > written + 20)
        self.assert_counted()

    def test_fault_during_the_recovery(self):
        supervisor = self.count()
        self.await_images(2)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)

        def restarting():
            return [p for p in processes.children(supervisor.pid)
                    if lab.executable_of(p) == "cr_restart"]
        os.kill(wait_until("cr_restart", restarting)[0], signal.SIGKILL)
        wait_until("a recovery after the failed one", lambda: "is back from" in self.errors())
        self.assertEqual(self.let_end(supervisor), 0)

    def test_restart_that_cannot_be_started_is_tried_again(self):
        self.replace_command("cr_restart", "")
        os.chmod(os.path.join(self.bin, "cr_restart"), 0o600)
        supervisor = self.count(recover=self.policy("[[fault]]\nlimit = 9\n"))
        self.await_images(2)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        wait_until("the failure", lambda: "Permission denied" in self.errors())
        os.unlink(os.path.join(self.bin, "cr_restart"))
        os.symlink(lab.tool("cr_restart"), os.path.join(self.bin, "cr_restart"))
        wait_until("a recovery after the failed one", lambda: "is back from" in self.errors() or
                   supervisor.poll() is not None)
        self.assertEqual(self.let_end(supervisor), 0, self.errors())

    def test_what_has_brought_it_back_is_killed(self):
        """The program goes back to its image, though it runs."""
        supervisor = self.count()
        self.await_images(2)
        os.kill(self.pid_of(supervisor), signal.SIGKILL)
        self.await_recovery(supervisor, 1)
        restarter = next(pid for pid in processes.children(supervisor.pid)
                         if lab.executable_of(pid) == "cr_restart")
        began = self.started(supervisor)
        os.kill(restarter, signal.SIGKILL)
        self.await_recovery(supervisor, 2)
        self.assertEqual(began & self.started(supervisor), set())
        self.assertEqual(self.let_end(supervisor), 0)

    def test_supervisor_is_killed(self):
        supervisor = self.count()
        self.await_images(1)
        pid = self.pid_of(supervisor)
        self.others += [pid, *processes.children(supervisor.pid)]
        supervisor.kill()
        supervisor.wait()
        written = len(self.numbers())
        wait_until("more numbers", lambda: len(self.numbers()) > written + 20)
        self.await_images(1)  # the keeper goes on, too
        said = self.status(supervisor)
        self.assertEqual((said["state"], said["pid"]), ("unsupervised", pid))
        self.assertEqual(self.run_status(str(pid)).returncode, 1)

    def test_without_a_place_for_cr_status(self):
        """The program comes back all the same."""
        with open(self.path("runtime"), "w", encoding="ascii"):
            pass
        supervisor = self.count()
        self.await_images(2)
        os.kill(self.pythons(supervisor)[0], signal.SIGKILL)
        wait_until("the recovery", lambda: "is back from" in self.errors())
        self.assertIn("cr_status will not know of this program", self.errors())
        self.assertEqual(self.let_end(supervisor), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
