#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a tree whose processes are made, replaced and ended all the time.

    forks_test.py --bin DIRECTORY --program PROGRAM [--forks N] [--checkpoints N]

Every checkpoint must succeed, no process may be lost or killed by it, and the last image brings the
program back, which makes the rest of its processes.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "programs"))
import processes  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 120


def save(options, pid, directory):
    """One checkpoint; False: the program had ended."""
    done = subprocess.run([f"{options.bin}/cr_checkpoint", "--nosync", "-f", f"{directory}/image",
                           str(pid)], capture_output=True, text=True, check=False,
                          timeout=PATIENCE)
    if done.returncode == 0:
        return True
    if "has ended" in done.stderr or "no process" in done.stderr:
        return False
    raise AssertionError(f"cr_checkpoint: {done.returncode}: {done.stderr}")


def bring_back(options, directory):
    """From the last image, to its end."""
    done = subprocess.run([f"{options.bin}/cr_restart", f"{directory}/image"],
                          capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def main():
    """One program, many checkpoints."""
    full = os.environ.get("CRYO_SOAK") == "1"
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--forks", type=int, default=20000 if full else 1000)
    parser.add_argument("--checkpoints", type=int, default=200 if full else 20)
    options = parser.parse_args()
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="forks.") as directory:
        with open(f"{directory}/output", "w+", encoding="utf-8") as output:
            program = subprocess.Popen(
                [f"{options.bin}/cr_run", options.program, str(options.forks)], stdout=output,
                stderr=output, stdin=subprocess.DEVNULL)
            taken = 0
            while taken < options.checkpoints and program.poll() is None:
                if not save(options, program.pid, directory):
                    break
                taken += 1
            status = program.wait(PATIENCE * 10)
            output.seek(0)
            text = output.read()
        processes.kill_family(os.getpid())
        assert status == 0 and f"{options.forks} of {options.forks}" in text, (status, text)
        assert taken > 0, "no checkpoint was taken"
        print(f"{options.forks} processes against {taken} checkpoints")
        if os.geteuid() == 0:
            status, text, errors = bring_back(options, directory)
            assert status == 0 and not errors.count("error"), (status, text, errors)
    return 0


if __name__ == "__main__":
    sys.exit(main())
