#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program that ends as soon as one of its threads runs again, before the restart is told of it."""
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
    os._exit(9)

def wait_for_ever():
    threading.Event().wait()

def run_hastily():
    runs = threading.Event()
    threading.Thread(target=end_at_restart, args=(runs,), daemon=True).start()
    runs.wait()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if sys.argv[1] == "alone":
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
    def status_of_restart(self, form):
        program = self.spawn(case.command("cr_run"), "/usr/bin/python3", "-S", "-c", HASTY, form)
        self.assertEqual("ready\n", program.stdout.readline())
        self.save("--nosync", "--kill", "-f", "image", program.pid)
        self.end(program)
        done = self.run_command("cr_restart", "--no-restore-pid", "image")
        self.assertNotIn("died", done.stderr)
        return done.returncode

    def test_alone(self):
        self.assertEqual(9, self.status_of_restart("alone"))

    def test_member_of_a_tree(self):
        self.assertEqual(10, self.status_of_restart("tree"))


if __name__ == "__main__":
    case.main()
