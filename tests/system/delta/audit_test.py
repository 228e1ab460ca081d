#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real programs under audit: of what a tracker calls unchanged, every page is compared.

    audit_test.py DIRECTORY-OF-COMMANDS PYTHON [--pages N]

Each program is saved as a chain of delta images while it works, until so many pages were audited in
all (10^6 unless told otherwise); the last image of each must be whole.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120
MOST_ROUNDS = 100
NOT_HERE = 77

NUMPY = """
import sys
import numpy
a = numpy.random.default_rng(1).random(9_000_000)
step = 0
print("ready", flush=True)
while True:
    part = a[step % 90 * 100_000:][:100_000]
    part += numpy.sin(part)
    b = a[::7] * 2
    step += 1
"""
OBJECTS = """
table = {n: ["text %d" % n, n, (n, str(n))] for n in range(150_000)}
print("ready", flush=True)
n = 0
while True:
    n += 1
    table[n % 1000] = [str(n), n, (n, n)]
    if n % 100_000 == 0:
        table.update((k, [k]) for k in range(n % 140_000, n % 140_000 + 5000))
"""
BASH = """
for ((i = 0; i < 150000; i++)); do words[i]="word number $i of them"; done
echo ready
while :; do i=$((RANDOM % 150000)); words[i]="$i again"; copy=("${words[@]:0:500}"); done
"""
PERL = """
my %h = map { $_ => { name => "n$_", list => [1 .. 5] } } 1 .. 60000;
$| = 1; print "ready\\n";
my $n = 0;
while (1) { $n++; $h{$n % 2000}{list} = [$n .. $n + 5]; $h{"x$n"} = 1; delete $h{"x" . ($n - 500)}; }
"""
AWK = """
BEGIN { for (i = 0; i < 400000; i++) t[i] = "line " i; print "ready"; fflush();
        while (1) { n++; t[n % 3000] = n " lines"; s = s "x"; if (n % 5000 == 0) s = "" } }
"""


THREADS = """
import threading, zlib
def work(number):
    texts = [bytes([number, i & 255]) * 4000 for i in range(1500)]
    packed = bytearray(8_000_000)
    n = 0
    while True:
        n += 1
        out = zlib.compress(texts[n % 1500] + n.to_bytes(8, "little"), 1)
        at = n * 997 % 7_000_000
        packed[at:at + len(out)] = out
        texts[n % 300] = out * (12000 // len(out))
for number in range(1, 4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
print("ready", flush=True)
work(0)
"""


def programs(python):
    return {
        "numpy": [python, "-c", NUMPY],
        "objects": [python, "-c", OBJECTS],
        "bash": ["bash", "-c", BASH],
        "perl": ["perl", "-e", PERL],
        "awk": ["awk", AWK],
        "threads": [python, "-c", THREADS],
    }


class Failed(Exception):
    pass


def record(tools, image):
    text = subprocess.run([tools("cr_inspect"), "--json", image], capture_output=True, text=True,
                          check=True, timeout=PATIENCE).stdout
    return json.loads(text)["snapshots"][0]["images"][0]["records"]["page_tracker"][0]


def audit(tools, name, command, scratch, wanted):
    """How many pages were audited; None if nothing is watched here."""
    process = subprocess.Popen([tools("cr_run"), *command], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        if process.stdout.readline() != b"ready\n":
            raise Failed(f"{name} has not begun")
        audited = 0
        rounds = 0
        base = []
        while audited < wanted and rounds < MOST_ROUNDS:
            image = os.path.join(scratch, f"{name}.{rounds}")
            done = subprocess.run(
                [tools("cr_checkpoint"), "-q", "--nosync", "--delta=incremental", *base, "-f", image,
                 str(process.pid)], capture_output=True, text=True, check=False, timeout=PATIENCE,
                stdin=subprocess.DEVNULL, env=dict(os.environ, CRYO_AUDIT="1"))
            if done.returncode != 0:
                raise Failed(f"{name}, checkpoint {rounds}: {done.stderr}")
            about = record(tools, image)
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
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return audited


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("python", help="one that has numpy")
    parser.add_argument("--pages", type=int, default=1_000_000)
    given = parser.parse_args()

    def tools(name):
        return os.path.join(given.bin, name)

    scratch = tempfile.mkdtemp(prefix="cryo-audit.")
    total = 0
    begun = time.monotonic()
    try:
        all_of_them = programs(given.python)
        for left, (name, command) in zip(range(len(all_of_them), 0, -1), all_of_them.items()):
            wanted = max(1, (given.pages - total) // left)
            audited = audit(tools, name, command, scratch, wanted)
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
