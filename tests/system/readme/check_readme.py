#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of docs/what-can-be-saved.md against the test programs.

A row's last column names test programs. In a row that says "saved", each must be one that the
backend `user` brings back; in a row that says "refused", one that is refused by name.

    check_readme.py what-can-be-saved.md programs.json user_refuses.txt [PROGRAM-NOT-RUN...]
"""
import json
import sys


def rows(page):
    """(what, state, names) of the table's rows."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n## The table\n", 1)[1].split("\n## ", 1)[0].splitlines()
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] not in ("what", "---"):
            yield cells[0], cells[1], cells[2].split()


def main():
    page, listing, refusals, *not_run = sys.argv[1:]
    with open(listing, encoding="utf-8") as file:
        programs = {program["name"]: program for program in json.load(file)}
    with open(refusals, encoding="utf-8") as file:
        refused = {line.split()[0] for line in file if line.strip() and line[0] != "#"}
    refused |= {name for name, program in programs.items() if program["refused"]}
    wrong = []
    count = 0
    for what, state, names in rows(page):
        for name in names:
            count += 1
            if name not in programs:
                wrong.append(f"{what}: there is no test program {name}")
            elif name in not_run:
                wrong.append(f"{what}: {name} is not run under the backend user")
            elif state.startswith("saved") and name in refused:
                wrong.append(f"{what}: said to be saved, but {name} is refused")
            elif state.startswith("refused") and name not in refused:
                wrong.append(f"{what}: said to be refused, but {name} is not")
    print("\n".join(wrong) if wrong else f"{count} claims of the table have their test")
    return 1 if wrong or count < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
