# SPDX-License-Identifier: Apache-2.0
"""Samples that were taken in turns, and the table of what they give beside each other.

    samples = Samples()
    samples.add("fork", 0.004)
    table.line("stop beside fork", samples.median("stop") / samples.median("fork"), at_most=1.5)
"""
import statistics


class Samples:
    """Values by name."""

    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def median(self, name):
        return statistics.median(self.values[name])

    def spread(self, name):
        """The middle half, as text."""
        values = sorted(self.values[name])
        return f"{values[len(values) // 4]:.3g}–{values[-1 - len(values) // 4]:.3g}"


class Table:
    """As that of ratios.hpp: what, measured, target, verdict, and a remark."""

    def __init__(self, full):
        self.full = full
        print(f"{'':58} {'measured':>9} {'target':>9}", flush=True)

    def line(self, what, measured, at_most=None, at_least=None, remark=""):
        target, verdict = "", ""
        if at_most is not None:
            target, met = f"≤ {at_most:g}", measured <= at_most
        if at_least is not None:
            target, met = f"≥ {at_least:g}", measured >= at_least
        if target and self.full:
            verdict = "met" if met else "MISSED"
        print(f"{what:58} {measured:9.3g} {target:>9}  {verdict:6} {remark}".rstrip(), flush=True)

    def finish(self):
        if not self.full:
            print("smoke size: these figures say nothing about speed; scripts/bench measures")
