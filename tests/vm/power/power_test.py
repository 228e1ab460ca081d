#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The power is cut at write barriers: the last committed image or snapshot restarts, always.

    power_test.py BIN GENERATIONS MPIRUN RANK ROUNDS CUTS

A file system lies on a device that writes down all its writes. On it something is saved again and
again, ROUNDS times in each way: a program over a file, over a directory, over a file of which backups
are kept, over a file and then killed; and a job. When the command has ended, a mark says which
generation is committed. Then the writes are done again on another device, up to CUTS of the barriers
(0: all), and each time it is mounted as after a crash, on a snapshot: what the marks promise must be
there and restart. At each cut that is what was being replaced, and one of the others.
"""
import os
import random
import subprocess
import sys

import ways
from write_log import WriteLog

SIZE, LOG_SIZE, COW_SIZE = 96 << 20, 1 << 30, 64 << 20
DATA, LOG, TARGET, COW = (f"/dev/ram{number}" for number in range(4))
MOUNTED, CRASHED = "/tmp/mounted", "/tmp/crashed"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, **more)


def sectors(size):
    return size // 512


def map_device(name, table):
    run("dmsetup", "create", name, "--noudevsync", "--table", table)
    minor = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor", name,
                stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"/dev/dm-{minor}"


def unmap(name):
    run("dmsetup", "remove", "--noudevsync", "--retry", name)


def all_ways(commands, generations, mpirun, rank):
    def goes(kind, name, *words):
        return kind(commands, generations, f"{MOUNTED}/{name}", *words)
    return {"file": goes(ways.Goes, "file", "-f"),
            "directory": goes(ways.Goes, "directory", "-d"),
            "backup": goes(ways.Goes, "backup", "--backup=2", "-f"),
            "last": goes(ways.Ends, "last", "-f"),
            "job": ways.Job(commands, mpirun, rank, f"{MOUNTED}/job.ckpt")}


def record(saved, rounds):
    """Saves while all writes are written down."""
    run("mkfs.ext4", "-q", "-b", "4096", DATA, f"{SIZE >> 20}M")
    run("dd", f"if={DATA}", f"of={TARGET}", "bs=1M", f"count={SIZE >> 20}", "status=none")
    logged = map_device("logged", f"0 {sectors(SIZE)} log-writes {DATA} {LOG}")
    os.makedirs(MOUNTED)
    run("mount", logged, MOUNTED)

    def mark(text):
        run("dmsetup", "message", "logged", "0", "mark", text)

    mark("begin")
    for generation in range(1, rounds + 1):
        for name, way in saved.items():
            way.save(generation)
            mark(f"{name}:{generation}")
    for way in saved.values():
        way.end()
    run("umount", MOUNTED)
    unmap("logged")


def check(saved, committed):
    """What is promised is there."""
    for name, generation in committed.items():
        got = saved[name].restart(saved[name].where.replace(MOUNTED, CRASHED))
        # The next one may be there already, though nobody has been told.
        assert got in (generation, generation + 1), f"{name}: {got}, committed {generation}"


def crash(saved, committed):
    """As if the machine had gone off now."""
    run("dd", "if=/dev/zero", f"of={COW}", "bs=4096", "count=1", "status=none")
    snapshot = map_device("crashed", f"0 {sectors(SIZE)} snapshot {TARGET} {COW} N 8")
    run("mount", snapshot, CRASHED)
    try:
        check(saved, committed)
    except Exception:
        subprocess.run(["ls", "-laR", CRASHED], check=False)
        raise
    finally:
        run("umount", CRASHED)
        unmap("crashed")


def under_way(entries):
    """For each entry the way in which something was being saved."""
    names, name = [], ""
    for entry in reversed(entries):
        if entry.is_mark and ":" in entry.text:
            name = entry.text.split(":")[0]
        names.append(name)
    return names[::-1]


def main():
    where, generations, mpirun, rank = sys.argv[1:5]
    rounds, cuts = map(int, sys.argv[5:])
    seed = int(os.environ.get("CRYO_SEED", os.environ.get("CRYO_SLICE", "0")))
    chance = random.Random(seed)

    def command(name):
        return os.path.join(where, name)

    run("modprobe", "brd", "rd_nr=4", f"rd_size={LOG_SIZE >> 10}")
    for module in ("dm-mod", "dm-log-writes", "dm-snapshot", "ext4"):
        run("modprobe", module)
    ways.processes.adopt_orphans()
    saved = all_ways(command, generations, mpirun, rank)
    record(saved, rounds)
    os.makedirs(CRASHED)
    log = WriteLog(LOG)
    entries = list(log)
    begin = next(i for i, entry in enumerate(entries) if entry.text == "begin")
    barriers = [i for i, entry in enumerate(entries) if i > begin and entry.is_barrier]
    chosen = set(barriers if cuts == 0 else chance.sample(barriers, min(cuts, len(barriers))))
    print(f"{len(entries)} writes, {len(barriers)} barriers, {len(chosen)} cuts, seed {seed}",
          flush=True)
    committed, done = {}, 0
    replaced = under_way(entries)
    with open(TARGET, "r+b", buffering=0) as target:
        for i, entry in enumerate(entries):
            if entry.is_mark and ":" in entry.text:
                name, generation = entry.text.split(":")
                committed[name] = int(generation)
            log.apply(entry, target.fileno())
            if i in chosen:
                os.fsync(target.fileno())
                looked_at = {replaced[i], chance.choice([*saved])}
                crash(saved, {name: committed[name] for name in looked_at if name in committed})
                done += 1
                if done % 100 == 0:
                    print(f"{done} cuts", flush=True)
    print(f"{done} times the last committed image came back; committed at the end: {committed}")
    assert committed == {name: rounds for name in saved}


if __name__ == "__main__":
    main()
