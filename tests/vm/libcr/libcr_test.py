#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tests of libcr.h on this kernel, under the backend kmod: one boot, one line each.

    libcr_test.py TESTS BIN CLIENTS [SUITE]...
"""

import os
import subprocess
import sys
import tempfile
import time

SUITES = ["callbacks", "codes", "overlap", "requests", "sections", "stopped"]


def has_kmod(commands):
    """Whether the commands choose the backend kmod by themselves."""
    with tempfile.TemporaryDirectory() as scratch:
        program = subprocess.Popen([os.path.join(commands, "cr_run"), "cat"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        program.stdin.write(b"ready\n")
        program.stdin.flush()
        program.stdout.readline()
        done = subprocess.run([os.path.join(commands, "cr_checkpoint"), "-v", "-f",
                               os.path.join(scratch, "image"), str(program.pid)],
                              capture_output=True, text=True, check=False)
        program.stdin.close()
        program.wait()
    print(done.stdout, done.stderr)
    return done.returncode == 0 and "backend kmod" in done.stdout + done.stderr


def main():
    tests, commands, clients, *more = sys.argv[1:]
    suites = SUITES + more
    if not has_kmod(commands):
        print("the backend kmod is not chosen here")
        return 1
    failed = []
    done = subprocess.run([os.path.join(clients, "calls")], check=False)
    if done.returncode != 0:
        failed.append("calls")
    for name in suites:
        begun = time.monotonic()
        done = subprocess.run([sys.executable, "-B", f"{tests}/test_{name}.py", commands, clients],
                              capture_output=True, text=True, check=False)
        print(f"== {name}: {time.monotonic() - begun:.0f} s\n{done.stdout}{done.stderr}", flush=True)
        if done.returncode != 0:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else f"all of {len(suites)} suites passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
