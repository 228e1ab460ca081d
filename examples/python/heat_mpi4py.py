# SPDX-License-Identifier: Apache-2.0
"""Heat in a ring of MPI ranks, with mpi4py and numpy. All ranks save the job together every now and then.

    cr_run mpirun -n 4 python3 heat_mpi4py.py [STEPS [EVERY]] &
    kill -9 $!; ompi-restart ~/ompi_global_snapshot_$!.ckpt
"""
import sys

import numpy as np
from mpi4py import MPI

import cryo

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
every = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
world = MPI.COMM_WORLD
left, right = (world.rank - 1) % world.size, (world.rank + 1) % world.size

cells = np.sin(np.arange(world.rank * 1000, (world.rank + 1) * 1000 + 2) * 0.01)
for step in range(1, steps + 1):
    world.Sendrecv(cells[1:2], dest=left, recvbuf=cells[-1:], source=right)
    world.Sendrecv(cells[-2:-1], dest=right, recvbuf=cells[:1], source=left)
    cells[1:-1] += 0.25 * (cells[:-2] - 2 * cells[1:-1] + cells[2:])
    if step % every == 0 and step < steps:
        try:
            restarted = cryo.checkpoint_job()
        except cryo.Error as problem: # no reason to stop
            if world.rank == 0:
                print(f"# step {step}: {problem}", flush=True)
        else:
            if world.rank == 0:
                print(f"# step {step}: {'back' if restarted else 'saved'}", flush=True)
total = world.reduce(float(np.abs(cells[1:-1]).sum()))
if world.rank == 0:
    print(f"{steps} steps: {total:.9f}")
