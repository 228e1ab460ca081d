#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs under audit: of what a tracker calls unchanged, every page is compared.

    audit_test.py DIRECTORY-OF-COMMANDS PYTHON [--pages N] [--scale N] [--seed N] [PROGRAM...]

Each program is saved as a chain of delta images while it works, until so many pages were audited in
all; the last image of each must be whole. That are 10^6 pages, with CRYO_SOAK in the environment
10^8, of programs that hold `scale` times as much.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from programs import Failed, Program, of_these

PATIENCE = 120
MOST_ROUNDS = 1000
NOT_HERE = 77


def look(tools, image):
    """Its record about the tracker, and whether it needs no other."""
    text = subprocess.run([tools("cr_inspect"), "--json", image], capture_output=True, text=True,
                          check=True, timeout=PATIENCE).stdout
    about = json.loads(text)["snapshots"][0]["images"][0]
    return about["records"]["page_tracker"][0], about["header"]["base_id"] is None


def audit(tools, name, program, scratch, wanted):
    """How many pages were audited; None if nothing is watched here."""
    try:
        pid = program.begin(name)
        audited = 0
        rounds = first = 0
        base = []
        while audited < wanted and rounds < MOST_ROUNDS:
            image = os.path.join(scratch, f"{name}.{rounds}")
            done = subprocess.run(
                [tools("cr_checkpoint"), "-q", "--nosync", "--sockets=close", "--delta=incremental",
                 *base, "-f", image, str(pid)], capture_output=True, text=True, check=False, timeout=PATIENCE,
                stdin=subprocess.DEVNULL, env=dict(os.environ, CRYO_AUDIT="1"))
            if done.returncode != 0:
                raise Failed(f"{name}, checkpoint {rounds}: {done.stderr}")
            about, is_complete = look(tools, image)
            for number in range(first, rounds) if is_complete else ():  # nobody needs them any more
                os.unlink(os.path.join(scratch, f"{name}.{number}"))
            first = rounds if is_complete else first
            if about["tracker"] == "hashing":
                return None
            if about["audited"] != about["clean"]:
                raise Failed(f"{name}: {about['clean']} pages left, {about['audited']} audited")
            audited += about["audited"]
            rounds += 1
            base = ["--base", image]
        print(f"{name}: {audited} pages in {rounds} checkpoints", flush=True)
        done = subprocess.run([tools("cr_inspect"), "--verify", image], capture_output=True,
                              text=True, check=False, timeout=PATIENCE)
        if done.returncode != 0:
            raise Failed(f"{name}: {done.stdout}{done.stderr}")
    finally:
        program.end()
    return audited


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("python", help="one that has numpy")
    parser.add_argument("program", nargs="*", help="of these only")
    soak = bool(os.environ.get("CRYO_SOAK"))
    parser.add_argument("--pages", type=int, default=100_000_000 if soak else 1_000_000)
    parser.add_argument("--scale", type=int, default=20 if soak else 1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()

    def tools(name):
        return os.path.join(given.bin, name)

    scratch = tempfile.mkdtemp(prefix="cryo-audit.")
    total = 0
    begun = time.monotonic()
    try:
        all_of_them = {name: one for name, one in of_these(given.python, given.scale, given.seed).items()
                       if not given.program or name in given.program}
        for left, (name, (words, shell)) in zip(range(len(all_of_them), 0, -1), all_of_them.items()):
            wanted = max(1, (given.pages - total) // left)
            program = Program(tools("cr_run"), words, scratch, shell)
            audited = audit(tools, name, program, scratch, wanted)
            if audited is None:
                print("nothing is watched on this kernel")
                return NOT_HERE
            total += audited
            for image in os.listdir(scratch):
                os.unlink(os.path.join(scratch, image))
    except Failed as why:
        print(why, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(scratch)
    print(f"{total} pages called unchanged, none of them changed "
          f"({time.monotonic() - begun:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
