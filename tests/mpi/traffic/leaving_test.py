#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job of sessions alone under `cr_run --recover`: a rank that has done its part leaves, and another one,
which works on, is killed. That is a fault, and the job comes back.

    leaving_test.py --bin DIRECTORY --ranks 2 -- ./leaving
"""
import os
import re
import shlex
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import job_test  # noqa: E402
import recover_test  # noqa: E402

# How the launcher ends, by the signal as it is, says nothing then: only how the ranks have ended does.
POLICY = """[[fault]]
signals = ["SEGV"]
limit = 5
"""


def main():
    parser = job_test.options_of_jobs(__doc__, patience=150, generations=1)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cryo-l-", dir="/tmp") as directory:
        jobs = recover_test.Supervised(options, directory)
        try:
            run(jobs, options)
        finally:
            jobs.kill()


def run(jobs, options):
    policy = jobs.directory / "policy.toml"
    policy.write_text(POLICY, encoding="utf-8")
    jobs.hold()
    jobs.start([*jobs.command("cr_run"), f"--recover={policy}", "--interval", "200ms", "--into",
                f"{jobs.directory}/kept", *shlex.split(options.mpirun), "-n", str(options.ranks),
                *options.command])
    jobs.await_("a snapshot", lambda: jobs.snapshots_made() > 0)
    (jobs.directory / "leave").touch()
    jobs.await_("the exit of rank 0", (jobs.directory / "left").exists)
    os.kill(int((jobs.directory / "pid.1").read_text()), signal.SIGKILL)
    jobs.await_("the recovery", lambda: jobs.recoveries() > 0)
    jobs.let_end()
    if (code := jobs.wait()) != 0:
        jobs.fail(f"the job ended with {code}")
    if len(re.findall(r"^1: [0-9A-F]{16}$", jobs.text(), re.M)) != 1:
        jobs.fail("rank 1 has not told its result once")
    print("a rank was killed after another one had left: the job came back")


if __name__ == "__main__":
    main()
