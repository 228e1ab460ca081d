#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/costs.txt and a report out of what scripts/lib/run_one_test has noted.

    costs.py TIMES COSTS REPORT

A test that was not run keeps the line it has. Tests are packed by quarters of a processor: what a
test used of one, rounded, and one quarter at least.
"""
import math
import os
import sys
from collections import defaultdict

QUARTERS = 4
MOST = 8  # two processors: what tests were measured on
LONGEST = 40
HEAD = """# SPDX-License-Identifier: Apache-2.0
# What a test takes: its name, seconds by the clock, slots (quarters of a processor). Written by
# `scripts/test --measure`.
"""


def read_times(path):
    """name -> (seconds by the clock, of a processor) of tests that passed; the longest of several."""
    times = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, clock, processor, code = line.split()
            if code == "0" and (name not in times or float(clock) > times[name][0]):
                times[name] = float(clock), float(processor)
    return times


def read_costs(path):
    costs = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                name, seconds, slots = line.split()
                costs[name] = float(seconds), int(slots)
    return costs


def slots_of(name, clock, processor):
    if name.startswith("vm."):
        return MOST // 2  # two at once: more emulated processors than real ones take each other's time
    used = processor / clock if clock > 0 else 1
    return min(MOST, max(1, math.floor(used * QUARTERS + 0.5)))


def write_report(path, times):
    labels = defaultdict(lambda: [0, 0.0, 0.0])
    for name, (clock, processor) in times.items():
        entry = labels[name.split(".", 1)[0]]
        entry[0] += 1
        entry[1] += clock
        entry[2] += processor
    with open(path, "w", encoding="utf-8") as file:
        file.write("| label | tests | clock, s | processor, s | waiting |\n| --- | --- | --- | --- | --- |\n")
        for label, (count, clock, processor) in sorted(labels.items()):
            waiting = max(0.0, 1 - processor / clock) if clock else 0
            file.write(f"| {label} | {count} | {clock:.0f} | {processor:.0f} | {waiting:.0%} |\n")
        file.write("\n| test | clock, s | processor, s |\n| --- | --- | --- |\n")
        longest = sorted(times.items(), key=lambda item: -item[1][0])[:LONGEST]
        for name, (clock, processor) in longest:
            file.write(f"| {name} | {clock:.1f} | {processor:.1f} |\n")


def main(times_path, costs_path, report_path):
    times = read_times(times_path)
    costs = read_costs(costs_path)
    for name, (clock, processor) in times.items():
        costs[name] = round(max(clock, 0.1), 1), slots_of(name, clock, processor)
    new = f"{costs_path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for name, (seconds, slots) in sorted(costs.items()):
            file.write(f"{name} {seconds} {slots}\n")
    os.replace(new, costs_path)
    write_report(report_path, times)


if __name__ == "__main__":
    main(*sys.argv[1:])
