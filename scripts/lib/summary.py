#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's JUnit files and prints how long each label took and one closing line.

A test's label is the part of its name before the first dot. With CI=true a skipped test counts
as failed, so that nothing is left out silently. No test at all is a failure, too.
"""
import os
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict


def main(paths):
    strict = os.environ.get("CI") == "true"
    passed, failed, skipped = 0, [], []
    seconds = defaultdict(float)
    counts = defaultdict(int)
    for path in paths:
        try:
            suite = ET.parse(path).getroot()
        except (OSError, ET.ParseError) as error:
            failed.append(f"{os.path.basename(path)}: no result of ctest ({error})")
            continue
        for case in suite.iter("testcase"):
            name, status = case.get("name"), case.get("status")
            label = name.split(".", 1)[0]
            seconds[label] += float(case.get("time") or 0)
            counts[label] += 1
            if status == "run":
                passed += 1
            elif status in ("notrun", "disabled") and not strict:
                skipped.append(name)
            else:
                failed.append(name if status == "fail" else f"{name} (could not run)")
    print()
    for label in sorted(seconds):
        print(f"  {label:8} {counts[label]:5} tests {seconds[label]:8.1f} s")
    for name in skipped:
        print(f"  skipped: {name}")
    for name in failed:
        print(f"  FAILED:  {name}")
    if passed + len(failed) == 0:
        print("  no test was run: the selection matches none")
    print(f"cryo: {passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
