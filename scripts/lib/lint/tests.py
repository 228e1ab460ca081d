# SPDX-License-Identifier: Apache-2.0
"""Checks of what the default tier of the tests costs: tests/tiers.txt beside tests/costs.txt. And that
the tests are there by which docs/security.md holds its promises."""
import fnmatch
import hashlib
import os
import re

LONGEST = 60  # seconds: what a test of the default tier may take
# What cannot be divided: two ranks that share a virtual machine's processors, and sources that a
# machine has not seen.
LONGER = {"vm.mpi.": 90, "lint.tidy_changed": 120}

# As cmake/CryoTiers.cmake has them, on the two processors that tests are measured on.
SLICES = 6
SLOTS = 8
MOST_OF_A_SLICE = 16  # minutes, were all slots always taken


def _lines(tree, name):
    for number, line in enumerate(tree.lines(name), 1):
        if line and not line.startswith("#"):
            yield number, line.split()


def _named(line):
    """Tests that a line names: `system.kills`, and `.tree` after it."""
    before = ""
    for name in re.findall(r"`((?:unit|system|mpi|vm|kunit|lint|bench)?\.?[\w*]+(?:\.[\w*]+)*)`", line):
        if re.match(r"(unit|system|mpi|vm|kunit|lint|bench)\.", name):
            before = name
            yield name, (name,)
        elif name.startswith(".") and before:
            yield name, (before + name, before.rpartition(".")[0] + name)


def _parts(line):
    """Parts of tests that a row of a table names: `Suite.Case`, (`Case`), test_it, `a.test` Case."""
    if line.startswith("|"):
        yield from re.findall(r"`([A-Z]\w+\.[\w*]+)`", line)
        for group in re.findall(r"\(((?:`[A-Z]\w+`(?:, )?)+)[;)]|` ([A-Z]\w+(?:, [A-Z]\w+)*)", line):
            yield from re.findall(r"\w+", "".join(group))
        yield from re.findall(r"\btest_\w+", line)


def _parts_there(tree):
    """Of Python's tests and GoogleTest's."""
    there = set()
    for name in tree.files:
        if name.startswith("tests/") and name.endswith((".py", ".cpp")):
            text = "\n".join(tree.lines(name))
            there.update(re.findall(r"^ *(?:class|def) (\w+)", text, re.MULTILINE))
            for suite, case in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", text, re.MULTILINE):
                there.update((suite, f"{suite}.{case}"))
    return there


def _promises(tree, costs):
    if "docs/security.md" not in tree.files:
        return
    there = _parts_there(tree)
    for number, line in enumerate(tree.lines("docs/security.md"), 1):
        for part in _parts(line):
            if not fnmatch.filter(there, part):
                yield f"docs/security.md:{number}: no test in tests/ has a part {part}"
        for name, meant in _named(line):
            if not any(fnmatch.filter(costs, one) for one in meant):
                yield f"docs/security.md:{number}: tests/costs.txt knows no test {name}"


def _slices(name, when):
    """The slices that a test is in, by the rule that cryo_tier of cmake/CryoTiers.cmake follows."""
    if when in ("default", "full"):
        return range(SLICES) if when == "default" else ()
    turn, period = when.split("/")
    period = int(period)
    if not turn:
        turn = int(hashlib.md5(name.encode()).hexdigest()[:6], 16) % period
    return [at for at in range(SLICES) if at % period == int(turn)]


def _full_slices(slots_used):
    """slots_used: slice -> seconds times slots."""
    for at, used in enumerate(slots_used):
        minutes = used / SLOTS / 60
        if minutes > MOST_OF_A_SLICE:
            yield (f"tests/tiers.txt: slice {at} takes {minutes:.1f} min by tests/costs.txt; "
                   f"{MOST_OF_A_SLICE} are the most")


def _without_costs(tree, costs):
    """Of the tests that cmake has found to be without a line when it configured tree.build."""
    try:
        with open(os.path.join(tree.build, "tests-without-costs"), encoding="utf-8") as file:
            names = file.read().split()
    except FileNotFoundError:
        return
    for name in names:
        if name not in costs:
            yield f"tests/costs.txt: no line for {name}, a test of the default tier"


def tests(tree):
    complaints, rules, costs, slots_used = [], [], {}, [0.0] * SLICES
    for number, fields in _lines(tree, "tests/tiers.txt"):
        if len(fields) == 2 and re.fullmatch(r"default|full|/\d|\d/\d", fields[0]):
            rules.append((number, fields[0], re.compile(fields[1]), []))
        else:
            complaints.append(f"tests/tiers.txt:{number}: not 'WHEN PATTERN'")
    for number, fields in _lines(tree, "tests/costs.txt"):
        if len(fields) == 3 and re.fullmatch(r"[\d.]+", fields[1]) and fields[2].isdigit():
            costs[fields[0]] = number, float(fields[1]), int(fields[2])
        else:
            complaints.append(f"tests/costs.txt:{number}: not 'NAME SECONDS SLOTS'")
    for name, (number, seconds, slots) in costs.items():
        rule = next((rule for rule in rules if rule[2].fullmatch(name)), None)
        if not rule:
            complaints.append(f"tests/costs.txt:{number}: no rule of tests/tiers.txt is for {name}")
            continue
        rule[3].append(name)
        for at in _slices(name, rule[1]):
            slots_used[at] += seconds * min(slots, SLOTS)
        longest = next((most for start, most in LONGER.items() if name.startswith(start)), LONGEST)
        if rule[1] != "full" and seconds > longest:
            complaints.append(f"tests/costs.txt:{number}: {name} takes {seconds:.0f} s; in the "
                              f"default tier {longest} s are the most: divide it, or make it full")
    complaints += _full_slices(slots_used)
    if costs:
        complaints += _without_costs(tree, costs)
        complaints += _promises(tree, costs)
        complaints += [f"tests/tiers.txt:{number}: no test matches '{pattern.pattern}'"
                       for number, when, pattern, names in rules
                       if not names and when != "full"]  # which may never have been measured
    return complaints
