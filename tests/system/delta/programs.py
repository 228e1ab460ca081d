# SPDX-License-Identifier: Apache-2.0
"""Real programs that hold some tens of MiB, and change them in their own ways until they are ended.

    for name, (words, shell) in of_these(python, scale=1, seed=1).items():
        program = Program("cr_run", words, scratch, shell)
        pid = program.begin(name)       # of the process that is to be saved
        program.end()
"""

import os
import shutil
import signal
import subprocess

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


SHELLED = {"sqlite3", "redis-server"}


class Failed(Exception):
    pass


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


def of_these(python, scale, seed):
    """Those that are installed here."""
    def filled(text):
        return text and text.replace("SCALE", str(scale)).replace("SEED", str(seed))

    return {name: ([filled(word) for word in words], filled(shell))
            for name, (words, shell) in programs(python).items() if shutil.which(words[0])}
