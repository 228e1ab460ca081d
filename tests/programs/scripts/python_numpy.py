# SPDX-License-Identifier: Apache-2.0
"""numpy: arrays, a random state, a linear system with threads of the BLAS, and a memory map."""

import numpy

import probe

generator = numpy.random.default_rng(probe.options.seed)
matrix = generator.random((200, 200)) + 200 * numpy.eye(200)
truth = numpy.arange(200.0)
right = matrix @ truth
mapped = numpy.memmap(probe.path("mapped"), dtype="int64", mode="w+", shape=(1000,))
while True:
    before = numpy.random.default_rng(5)
    before.random(100)
    mapped[:] = probe.number
    if not probe.cycle():
        break
    if probe.sabotaged("array"):
        matrix[3, 3] = 0
    fresh = numpy.random.default_rng(5)
    fresh.random(100)
    probe.equal("random numbers", fresh.random(5).tolist(), before.random(5).tolist())
    probe.equal("solution by the array", True,
                bool(numpy.allclose(numpy.linalg.solve(matrix, right), truth)))
    probe.equal("mapped array", [probe.number - 1] * 1000, mapped.tolist())
probe.passed()
