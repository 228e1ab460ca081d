#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's JUnit files: how long each label took, what failed, and one closing line. Of a
run that was resumed, FILE.before has a line for each test that ended before: name, seconds, status.

A test's label is the part of its name before the first dot. With CI=true a skipped test counts
as failed, so that nothing is left out silently. No test at all is a failure, too.
"""
import argparse
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict


def arguments():
    parser = argparse.ArgumentParser(description="Adds up the results of ctest.")
    parser.add_argument("--kept", metavar="DIR", help="where scripts/test keeps what failed")
    parser.add_argument("--rounds", type=int, default=1, help="how often each test was run")
    parser.add_argument("--minutes", type=int, help="how long all of it took")
    parser.add_argument("result", nargs="+")
    return parser.parse_args()


class Results:
    def __init__(self, strict):
        self._strict = strict
        self.passed, self.failed, self.skipped = Counter(), Counter(), Counter()
        self.seconds, self.counts = defaultdict(float), Counter()

    def add(self, path):
        sanitized = "asan." if os.path.basename(path).startswith("ctest-asan") else ""
        if path.endswith(".before"):
            with open(path, encoding="utf-8") as file:
                for name, seconds, status in map(str.split, file):
                    self.add_test(sanitized, name, float(seconds),
                                  {"0": "run", "77": "notrun"}.get(status, "fail"))
            return
        try:
            suite = ET.parse(path).getroot()
        except (OSError, ET.ParseError) as error:
            self.failed[f"{os.path.basename(path)}: no result of ctest ({error})"] += 1
            return
        for case in suite.iter("testcase"):
            self.add_test(sanitized, case.get("name"), float(case.get("time") or 0),
                          case.get("status"))

    def add_test(self, sanitized, name, seconds, status):
        label = name.split(".", 1)[0]
        self.seconds[label] += seconds
        self.counts[label] += 1
        if status == "run":
            self.passed[sanitized + name] += 1
        elif status in ("notrun", "disabled") and not self._strict:
            self.skipped[sanitized + name] += 1
        else:
            self.failed[sanitized + name] += 1


def tell_failures(results, options):
    for name, times in sorted(results.failed.items()):
        often = f" ({times} of {options.rounds} times)" if options.rounds > 1 else ""
        print(f"  FAILED:  {name}{often}")
        kept = os.path.join(options.kept, "failed", name) if options.kept else ""
        if os.path.isdir(kept):
            print(f"           kept: {os.path.relpath(kept)}")
    tests = sorted({name.removeprefix("asan.") for name in results.failed if " " not in name})
    if tests:
        pattern = "|".join(re.escape(name).replace("\\_", "_") for name in tests)
        print(f"  again:   scripts/test -R '^({pattern})$'")


def main():
    options = arguments()
    results = Results(os.environ.get("CI") == "true")
    for path in options.result:
        results.add(path)
    print()
    for label in sorted(results.seconds):
        print(f"  {label:8} {results.counts[label]:5} tests {results.seconds[label]:8.1f} s")
    for name in sorted(results.skipped):
        print(f"  skipped: {name}")
    tell_failures(results, options)
    passed, failed = sum(results.passed.values()), sum(results.failed.values())
    if passed + failed == 0:
        print("  no test was run: the selection matches none")
    if options.minutes is not None:
        print(f"  all of it took {options.minutes} min")
    print(f"cryo: {passed} passed, {failed} failed, {sum(results.skipped.values())} skipped")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
