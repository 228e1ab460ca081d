# SPDX-License-Identifier: Apache-2.0
"""Checks of what other distributions and clusters install Cryo by: RPM specifications, Ansible roles."""
import os

from .tree import ROOT, run, tool


def rpm(tree):
    complaints = []
    for name in tree.matching(r"\.spec$"):
        parsed = run([tool("rpmspec", "rpm"), "-P", name])
        if parsed.returncode or "warning:" in parsed.stdout:
            complaints += [f"{name}: {line}" for line in parsed.stdout.splitlines()
                           if line.startswith(("error:", "warning:"))] or [f"{name}: cannot be parsed"]
            continue
        settings = os.path.join(os.path.dirname(name), "rpmlint.toml")
        known = ["-c", settings] if os.path.exists(os.path.join(ROOT, settings)) else []
        judged = run([tool("rpmlint"), *known, name])
        complaints += [f"{name}: {line}" for line in judged.stdout.splitlines()
                       if ": E: " in line or ": W: " in line]
    return complaints


def ansible(tree):
    complaints = []
    for name in tree.matching(r"(^|/)galaxy\.yml$"):
        place = os.path.dirname(name)
        # Run in the collection, whose own settings it reads; a cache below HOME is all that it writes.
        judged = run([tool("env"), "-C", place or ".", tool("ansible-lint"), "--offline", "--nocolor",
                      "-q", "-p"])
        complaints += [f"{place}/{line}" for line in judged.stdout.splitlines() if ": " in line] \
            if judged.returncode else []
        if judged.returncode and not complaints:
            complaints.append(f"{place}: {judged.stdout.strip()}")
    return complaints
