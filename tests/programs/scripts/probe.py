# SPDX-License-Identifier: Apache-2.0
"""The protocol of the test programs for Python. docs/test-programs.md explains it.

    import probe
    while probe.cycle():                 # says ready, returns when told to check
        probe.equal("sum", 10, sum(numbers))
    probe.passed()
"""

import argparse
import os
import time

_parser = argparse.ArgumentParser()
_parser.add_argument("--dir", required=True)
_parser.add_argument("--seed", type=int, default=1)
_parser.add_argument("--sabotage", default="")
options = _parser.parse_args()
number = 0
_told = ["more"]


def path(name):
    """The name of a file of this run."""
    return os.path.join(options.dir, name)


def _publish(name, text):
    draft = path(f"{name}.{number}.draft.{os.getpid()}")
    with open(draft, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        os.link(draft, path(f"{name}.{number}"))
    finally:
        os.unlink(draft)


def cycle():
    """Ends the cycle before, if there was one, and begins the next; False after the last."""
    global number, _told
    if "more" not in _told:
        return False
    if number > 0:
        _publish("verdict", "PASS")
    number += 1
    _publish("ready", "")
    while not os.path.exists(path(f"check.{number}")):
        time.sleep(0.002)
    with open(path(f"check.{number}"), encoding="ascii") as file:
        _told = file.read().split()
    return True


def passed():
    """The last verdict."""
    _publish("verdict", "PASS")
    print("PASS", flush=True)


def sabotaged(name):
    """True if this feature is to be undone before the check."""
    return options.sabotage == name


def equal(what, expected, found):
    """Ends the program with a verdict unless both are equal."""
    if expected != found:
        text = f"FAIL: {what}: expected {expected!r}, found {found!r}"
        _publish("verdict", text)
        print(text, flush=True)
        os._exit(1)
