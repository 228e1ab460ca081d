# SPDX-License-Identifier: Apache-2.0
"""Other users, for tests that attack one of them: a small program with its own verdict.

    attack.needs_root(sys.argv[1])           # where Cryo's commands are
    subprocess.run(words, **attack.user(attack.ATTACKER))
"""
import argparse
import os
import sys
import unittest

VICTIM, ATTACKER = 1000, 65534


def user(uid):
    """As further arguments of a function that starts a program. Root's own PATH may lead to where
    nobody else may look."""
    if uid == 0:
        return {}
    return {"user": uid, "group": uid, "extra_groups": []}


def leave_out(why):
    print(f"left out: {why}")
    sys.exit(77)


def needs_root(commands):
    """To become the users concerned, who have to see the commands."""
    if os.geteuid() != 0:
        leave_out("it takes root to become another user")
    path = os.path.abspath(commands)
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            leave_out(f"other users may not look into {path}")
        path = os.path.dirname(path)
    os.environ["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    os.environ["HOME"] = "/"


def main_of_jobs(jobs):
    """Of a program DIRECTORY_OF_COMMANDS FAKE_RANK, whose tests are of `jobs` (tests/system/coord)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=os.path.abspath)
    parser.add_argument("rank")
    jobs.OPTIONS, rest = parser.parse_known_args()
    needs_root(jobs.OPTIONS.bin)
    needs_root(os.path.dirname(jobs.OPTIONS.rank))
    unittest.main(argv=[sys.argv[0], *rest])
