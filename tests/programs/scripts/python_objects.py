# SPDX-License-Identifier: Apache-2.0
"""Objects, a generator in the middle, an open file, a closure and random numbers of Python."""

import gc
import random

import probe


def squares():
    """All squares."""
    i = 0
    while True:
        yield i * i
        i += 1


random.seed(probe.options.seed)
again = random.Random(probe.options.seed)
words = {f"word {i}": [i] * (i % 7) for i in range(20000)}
generator = squares()
log = open(probe.path("log"), "w+", encoding="utf-8")
drawn = 0
while True:
    last = next(generator)
    log.write(f"{last}\n")
    drawn += 1
    if not probe.cycle():
        break
    if probe.sabotaged("dictionary"):
        del words["word 5"]
    if probe.sabotaged("generator"):
        next(generator)
    probe.equal("dictionary", {f"word {i}": [i] * (i % 7) for i in range(20000)}, words)
    probe.equal("random number", again.random(), random.random())
    probe.equal("generator", probe.number * probe.number, next(generator))
    generator = squares()
    for _ in range(drawn):
        next(generator)
    log.flush()
    probe.equal("log", drawn, len(open(probe.path("log"), encoding="utf-8").readlines()))
    gc.collect()
probe.passed()
