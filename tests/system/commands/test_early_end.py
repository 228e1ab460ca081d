#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that ends as soon as one of its threads runs again, before the restart is told of it."""
import os
import subprocess

import case

# The main thread, which leads the restart, gets the only processor when no other thread wants it.
# The other one ends the process once this one has used less time than it had before.
HASTY = """
import os, sys, threading, time

def end_at_restart(runs):
    last = 0
    while (now := time.process_time()) >= last:
        last = now
        if now > 0.5: runs.set()
    if sys.argv[1] == "executes":
        os.execv("/bin/sh", ["sh", "-c", "until [ -e told ]; do sleep 0.02; done; exit 9"])
    if sys.argv[1] == "forks" and os.fork() == 0:
        with open("child", "w") as file: file.write(f"{os.getpid()} ")
        time.sleep(600)
    os._exit(9)

def wait_for_ever():
    threading.Event().wait()

def run_hastily():
    runs = threading.Event()
    threading.Thread(target=end_at_restart, args=(runs,), daemon=True).start()
    runs.wait()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if sys.argv[1] != "tree":
    run_hastily()
    print("ready", flush=True)
    wait_for_ever()
child = os.fork()
if child == 0:
    run_hastily()
    print("ready", flush=True)
    wait_for_ever()
os._exit(os.waitstatus_to_exitcode(os.wait()[1]) + 1)
"""


class EarlyEnd(case.Case):
    def saved(self, form):
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", HASTY, form)
        self.assertEqual("ready\n", program.stdout.readline())
        self.save("--nosync", "--kill", "--stall", "60", "-f", "image", program.pid)
        self.end(program)

    def status_of_restart(self, form):
        self.saved(form)
        # Not into pipes: a child of the program has the other ends for as long as it lives.
        with open(self.path("said"), "w+", encoding="utf-8") as said:
            done = self.run_command("cr_restart", "--no-restore-pid", "image",
                                    capture_output=False, stdout=subprocess.DEVNULL, stderr=said)
            said.seek(0)
            self.assertNotIn("died", said.read())
        return done.returncode

    def test_alone(self):
        self.assertEqual(9, self.status_of_restart("alone"))

    def test_member_of_a_tree(self):
        self.assertEqual(10, self.status_of_restart("tree"))

    def test_child_that_lives_on(self):
        """It has what cr_restart listens to."""
        self.assertEqual(9, self.status_of_restart("forks"))

        def child():
            if not os.path.exists(self.path("child")):
                return 0
            with open(self.path("child"), encoding="ascii") as file:
                return int(file.read().partition(" ")[0] or 0)
        case.kill(case.wait_until("the child", child))

    def test_other_program(self):
        """It waits until cr_restart has told that the first one goes on."""
        self.saved("executes")
        with open(self.path("said"), "w", encoding="utf-8") as said:
            restarted = self.restart("image", stderr=said)

        def is_told():
            with open(self.path("said"), encoding="utf-8") as said:
                return "goes on" in said.read()
        case.wait_until("cr_restart tells", is_told)
        with open(self.path("told"), "w", encoding="ascii"):
            pass
        self.assertEqual(9, restarted.wait(case.PATIENCE))


if __name__ == "__main__":
    case.main()
