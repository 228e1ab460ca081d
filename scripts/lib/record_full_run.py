#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Notes a full run in docs/soak.md: record_full_run.py SUMMARY (what scripts/lib/summary.py said)."""
import datetime
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs", "soak.md")
HEAD = "| commit | day | closing line | minutes |\n| --- | --- | --- | --- |\n"


def main(summary):
    with open(summary, encoding="utf-8") as file:
        text = file.read()
    closing = text.strip().splitlines()[-1]
    minutes = re.search(r"all of it took (\d+) min", text)
    commit = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.strip()
    row = (f"| {commit} | {datetime.date.today().isoformat()} | {closing} | "
           f"{minutes.group(1) if minutes else ''} |\n")
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    if HEAD not in page:
        sys.exit(f"{PAGE}: there is no table of full runs in it")
    at = page.index(HEAD) + len(HEAD)
    while page.startswith("|", at):
        at = page.index("\n", at) + 1
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page[:at] + row + page[at:])
    print(f"noted in docs/soak.md: {commit}, {closing}")


if __name__ == "__main__":
    main(sys.argv[1])
