# SPDX-License-Identifier: Apache-2.0
"""Heat spreads over a plate, in numpy. The program saves itself every now and then, with all its arrays,
and has no code to write or read its state.

    cr_run python3 heat_numpy.py [STEPS [EVERY [IMAGE]]] &
    kill -9 $!; cr_restart heat.image
"""
import sys

import numpy as np

import cryo

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
every = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
image = sys.argv[3] if len(sys.argv) > 3 else "heat.image"


@cryo.after_restart
def say():
    print(f"heat: back at step {step}, restarted {cryo.restarts()} times so far", file=sys.stderr)


plate = np.zeros((200, 200))
plate[0, :] = 100.0
for step in range(1, steps + 1):
    plate[1:-1, 1:-1] = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
    if step % every == 0 and step < steps:
        try:
            if not cryo.checkpoint(image):
                print(f"heat: saved at step {step}", file=sys.stderr, flush=True)
        except cryo.Error as problem: # no reason to stop
            print(f"heat: step {step}: {problem}", file=sys.stderr, flush=True)
print(f"{steps} steps: {plate.sum():.9f}")
