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
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120
MOST_ROUNDS = 1000
NOT_HERE = 77

NUMPY = """
import sys
import numpy
a = numpy.random.default_rng(SEED).random(9_000_000 * SCALE)
step = 0
print("ready", flush=True)
while True:
    part = a[step % (90 * SCALE) * 100_000:][:100_000]
    part += numpy.sin(part)
    b = a[:9_000_000:7] * 2
    step += 1
"""
OBJECTS = """
table = {n: ["text %d" % n, n, (n, str(n))] for n in range(150_000 * SCALE)}
print("ready", flush=True)
n = SEED
while True:
    n += 1
    table[n % 1000] = [str(n), n, (n, n)]
    if n % 100_000 == 0:
        table.update((k, [k]) for k in range(n % 140_000, n % 140_000 + 5000))
"""
BASH = """
RANDOM=SEED
for ((i = 0; i < 150000 * SCALE; i++)); do words[i]="word number $i of them"; done
echo ready
while :; do i=$((RANDOM)); words[i]="$i again"; copy=("${words[@]:0:500}"); done
"""
PERL = """
my %h = map { $_ => { name => "n$_", list => [1 .. 5] } } 1 .. 60000 * SCALE;
$| = 1; print "ready\\n";
my $n = SEED;
while (1) { $n++; $h{$n % 2000}{list} = [$n .. $n + 5]; $h{"x$n"} = 1; delete $h{"x" . ($n - 500)}; }
"""
AWK = """
BEGIN { for (i = 0; i < 400000 * SCALE; i++) t[i] = "line " i; print "ready"; fflush();
        n = SEED; while (1) { n++; t[n % 3000] = n " lines"; s = s "x"; if (n % 5000 == 0) s = "" } }
"""


THREADS = """
import threading, zlib
def work(number):
    texts = [bytes([number, i & 255]) * 4000 for i in range(1500)]
    packed = bytearray(8_000_000 * SCALE)
    packed[::4096] = bytes([7]) * len(packed[::4096])
    n = SEED
    while True:
        n += 1
        out = zlib.compress(texts[n % 1500] + n.to_bytes(8, "little"), 1)
        at = n * 997 % (7_000_000 * SCALE)
        packed[at:at + len(out)] = out
        texts[n % 300] = out * (12000 // len(out))
for number in range(1, 4):
    threading.Thread(target=work, args=(number,), daemon=True).start()
print("ready", flush=True)
work(0)
"""


LUA = """
local t = {}
for i = 1, 300000 * SCALE do t[i] = { name = "n" .. i, i } end
print("ready") io.flush()
local n = SEED
while true do
    n = n + 1
    t[n * 7 % 20000 + 1] = { name = "again" .. n, n, n }
    if n % 5000 == 0 then t["x" .. n] = string.rep("y", n % 100000) t["x" .. n - 50000] = nil end
end
"""
# In memory; the changes come by a pipe.
SQLITE = """
{
    echo "create table t (id integer primary key, v blob, n integer); create index n on t (n);"
    echo "with recursive c(i) as (select 1 union all select i + 1 from c limit 200000 * SCALE)"
    echo "insert into t select i, randomblob(150), i % 1000 + SEED from c;"
    echo "select 'ready';"
    yes "update t set v = randomblob(150), n = n + 1 where id in
         (select abs(random()) % (200000 * SCALE) from t limit 100);"
} | $CRYO_RUN sqlite3 :memory:
"""
# Changed by a script that never ends.
REDIS = """
sock=$1/redis.sock
$CRYO_RUN redis-server --port 0 --unixsocket "$sock" --save "" --appendonly no \\
    --enable-debug-command local --dir "$1" --logfile "$1/redis.log" > /dev/null &
until redis-cli -s "$sock" ping; do sleep 0.1; done > /dev/null 2>&1
redis-cli -s "$sock" debug populate $((400000 * SCALE)) key 100 > /dev/null
echo ready
redis-cli -s "$sock" eval "local n = SEED while true do n = n + 1
    redis.call('set', 'key:' .. n * 7 % 30000, string.rep('x', n % 300))
    redis.call('lpush', 'list', n) redis.call('ltrim', 'list', 0, 5000) end" 0
"""


class Program:
    """One of them, alive."""

    def __init__(self, run, words, scratch, shell=None):
        self.scratch = scratch
        environment = dict(os.environ, CRYO_RUN=run)
        if shell is not None:
            words = ["bash", "-c", shell, "bash", scratch]
        else:
            words = [run, *words]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, start_new_session=True,
                                        env=environment)

    def begin(self, name):
        """The process that is to be saved, when it has filled its memory."""
        if self.process.stdout.readline() != b"ready\n":
            raise Failed(f"{name} has not begun")
        for pid in os.listdir("/proc"):
            if pid.isdigit() and session_of(pid) == self.process.pid and comm_of(pid) in SHELLED:
                return int(pid)
        return self.process.pid

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


SHELLED = {"sqlite3", "redis-server"}


def session_of(pid):
    try:
        return os.getsid(int(pid))
    except ProcessLookupError:
        return None


def comm_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as text:
            return text.read().strip()
    except OSError:
        return None


def programs(python):
    """By name: the command, or a script of the shell."""
    return {
        "numpy": ([python, "-c", NUMPY], None),
        "objects": ([python, "-c", OBJECTS], None),
        "bash": (["bash", "-c", BASH], None),
        "perl": (["perl", "-e", PERL], None),
        "awk": (["awk", AWK], None),
        "threads": ([python, "-c", THREADS], None),
        "lua": (["lua5.4", "-e", LUA], None),
        "sqlite3": (["sqlite3"], SQLITE),
        "redis": (["redis-server"], REDIS),
    }


class Failed(Exception):
    pass


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

    def filled(text):
        return text and text.replace("SCALE", str(given.scale)).replace("SEED", str(given.seed))

    scratch = tempfile.mkdtemp(prefix="cryo-audit.")
    total = 0
    begun = time.monotonic()
    try:
        all_of_them = {name: one for name, one in programs(given.python).items()
                       if shutil.which(one[0][0]) and (not given.program or name in given.program)}
        for left, (name, (words, shell)) in zip(range(len(all_of_them), 0, -1), all_of_them.items()):
            wanted = max(1, (given.pages - total) // left)
            program = Program(tools("cr_run"), [filled(word) for word in words], scratch, filled(shell))
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
