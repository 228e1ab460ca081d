# SPDX-License-Identifier: Apache-2.0
"""Checks of what other distributions and clusters install Cryo by, and watch it with: RPM specifications,
Ansible roles, rules and dashboards for Prometheus."""
import json
import os
import re
import tempfile

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


def metrics(tree):
    """Rules by promtool, with their tests, and what it is configured by; of dashboards the expressions, as rules."""
    promtool = tool("promtool", "prometheus")
    complaints = []

    def judge(name, *words):
        judged = run([promtool, *words])
        if judged.returncode:
            complaints.append(f"{name}: {' '.join(judged.stdout.split())}")

    for name in tree.matching(r"\.rules\.yml$"):
        judge(name, "check", "rules", name)
    for name in tree.matching(r"\.rules\.test\.yml$"):
        judge(name, "test", "rules", name)
    for name in tree.matching(r"(^|/)prometheus-[^/]*\.yml$"):
        judge(name, "check", "config", name)
    for name in tree.matching(r"(^|/)grafana-[^/]*\.json$"):
        try:
            asked = [target["expr"] for panel in json.loads(tree.content(name))["panels"]
                     for target in panel["targets"]]
        except (ValueError, KeyError, TypeError) as problem:
            complaints.append(f"{name}: is no dashboard: {problem!r}")
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".json") as rules: # YAML, too
            json.dump({"groups": [{"name": "panels", "rules": [
                {"record": f"panel:{at}", "expr": re.sub(r"\$\w+", "x", one)}
                for at, one in enumerate(asked)]}]}, rules)
            rules.flush()
            judge(name, "check", "rules", rules.name)
    return complaints
