# SPDX-License-Identifier: Apache-2.0
"""Whether the method that Cryo plans is the best one: real programs, saved by each in turns.

    for name, samples, chosen in Planner(cryo, "python3", rounds=9).programs():
        samples.median("planned") / min(samples.median(one) for one in SINGLE)

What is compared is how long the program stood still, as cr_checkpoint tells it, for a delta image of
what it had changed in a fifth of a second.
"""
import os
import random
import shutil
import tempfile
import time
import types

from patients import await_copies, children, remove
from programs import Failed, Program, of_these  # of tests/system/delta
from table import Samples

SINGLE = ("fork", "staged", "stop")
PAUSE = 0.2


class Planner:
    """Measures; `failed` is the exception of a program that does not begin."""

    failed = Failed

    def __init__(self, cryo, python, rounds):
        self.cryo, self.python, self.count = cryo, python, rounds
        self.random = random.Random(6)

    def programs(self, most=None):
        """Name, samples in milliseconds by method, what the planner has chosen each time; not of
        more programs than so many."""
        scratch = tempfile.mkdtemp(prefix="planner-", dir=".")
        try:
            for name, (words, shell) in list(of_these(self.python, 1, 1).items())[:most]:
                before = children()
                program = Program(self.cryo.command("cr_run"), words, os.path.abspath(scratch), shell)
                try:
                    one = types.SimpleNamespace(pid=program.begin(name))
                    yield name, *self.measure(one, lambda: time.sleep(PAUSE),
                                              but=before | {program.process.pid})
                finally:
                    program.end()
        finally:
            shutil.rmtree(scratch)

    def measure(self, program, change, but=()):
        """Each round begins a chain, so that none is ever too long."""
        samples, chosen = Samples(), []
        options = ("--nosync", "--sockets=close", "--delta=incremental")
        for number in range(self.count + 1):
            chain = ["planner.0"]
            self.cryo.checkpoint(program, chain[0], *options)
            methods = [*SINGLE, "planned"]
            self.random.shuffle(methods)
            for method in methods:
                await_copies(but)
                change()
                forced = [] if method == "planned" else [f"--snapshot={method}"]
                image = f"planner.{len(chain)}"
                done = self.cryo.checkpoint(program, image, *options, *forced, "--base", chain[-1])
                chain.append(image)
                if number == 0:
                    continue  # the first pays for the watching
                samples.add(method, done["stopped_ns"] / 1e6)
                if method == "planned":
                    chosen.append(done["snapshot"])
            await_copies(but)
            for image in chain:
                remove(image)
        return samples, chosen
