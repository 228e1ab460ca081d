#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of every crossing between the program's world and the capsule's.

    check_gates.py libcryo_openmpi.so

Between the change of the FS base there and the change back stands one call, and nothing that uses
thread-local storage (%fs). A crossing is an instance of cryo::capsule::gate or home_gate.
"""
import re
import subprocess
import sys

SWITCH = re.compile(r"\bwrfsbase\b")
GATE = re.compile(r"cryo::capsule::(home_)?gate<")


def functions(library):
    """Names and instructions of the crossings."""
    listing = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", library],
                             check=True, capture_output=True, text=True).stdout
    for block in listing.split("\n\n"):
        head, _, body = block.partition("\n")
        name = re.match(r"[0-9a-f]+ <(.*)>:$", head)
        if name and GATE.search(name.group(1)):
            yield name.group(1), [line.split("\t", 1)[1] for line in body.splitlines()
                                  if "\t" in line]


def complaints(name, code):
    switches = [i for i, instruction in enumerate(code) if SWITCH.search(instruction)]
    if len(switches) != 2:
        yield f"{name}: {len(switches)} changes of the FS base, not two"
        return
    between = code[switches[0] + 1:switches[1]]
    # Where there is no wrfsbase, the code behind the way back changes it by a system call.
    before_slow_path = [i for i in between if not re.match(r"(jmp|j\w+) ", i)]
    calls = [i for i in before_slow_path if i.startswith("call")]
    if len(calls) != 1 or "*" not in calls[0]:
        yield f"{name}: between the changes: {calls}, not one call through a pointer"
    for instruction in between:
        if "%fs" in instruction:
            yield f"{name}: uses thread-local storage between the changes: {instruction}"


def main(library):
    found = list(functions(library))
    wrong = [complaint for name, code in found for complaint in complaints(name, code)]
    print("\n".join(wrong))
    if wrong or len(found) < 50:
        sys.exit(f"{len(wrong)} faults in {len(found)} crossings")
    print(f"{len(found)} crossings, each with one call and nothing else between")


if __name__ == "__main__":
    main(*sys.argv[1:])
