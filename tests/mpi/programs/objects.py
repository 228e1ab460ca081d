# SPDX-License-Identifier: Apache-2.0
"""mpi4py: pickled objects, arrays, operations and attributes with Python callbacks, a window, a file."""
import os

import mpi4py
import numpy as np

mpi4py.rc.thread_level = "serialized"  # this MPI has no one-sided messages with several threads
from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
said = []  # printed by one rank, so that lines stay whole
rank, size = world.rank, world.size

everything = world.allgather({"rank": rank, "text": "x" * rank})
assert [entry["rank"] for entry in everything] == list(range(size))
said.append((rank, world.sendrecv([rank, "ring"], dest=(rank + 1) % size, source=(rank - 1) % size)))

values = np.arange(10, dtype="d") * (rank + 1)
total = np.empty_like(values)
world.Allreduce(values, total)
said.append((rank, total.sum()))

longest = MPI.Op.Create(lambda a, b, datatype: None, commute=True)
longest.Free()


def add_squares(a, b, datatype):
    one = np.frombuffer(a, dtype="d")
    other = np.frombuffer(b, dtype="d")
    other[:] = other + one ** 2


squares = MPI.Op.Create(add_squares, commute=False)
if rank == 0:
    world.Reduce(values, total, op=squares, root=0)
    said.append(("squares", total.sum()))
else:
    world.Reduce(values, None, op=squares, root=0)
squares.Free()

copies = []
keyval = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: copies.append(value) or value + 1,
                                delete_fn=lambda comm, key, value: copies.append(-value))
world.Set_attr(keyval, 41)
copy = world.Dup()
assert copy.Get_attr(keyval) == 42
copy.Free()
world.Delete_attr(keyval)
said.append((rank, copies))
assert world.Get_attr(MPI.TAG_UB) >= 32767

pairs = MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.INT, MPI.DOUBLE]).Commit()
assert pairs.Get_envelope()[3] == MPI.COMBINER_STRUCT
pairs.Free()

memory = np.zeros(size, dtype="i")
window = MPI.Win.Create(memory, disp_unit=4, comm=world)
mine = np.array([rank + 100], dtype="i")
window.Fence()
window.Put(mine, (rank + 1) % size, target=rank)
window.Fence()
window.Free()
said.append((rank, memory))

path = os.path.join(os.environ["CRYO_SCRATCH"], "file")
file = MPI.File.Open(world, path, MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Write_at_all(rank * 8, np.array([rank * 1.5]))
file.Sync()
world.Barrier()
got = np.empty(size)
file.Read_at_all(0, got)
file.Close()
said.append((rank, got))

half = world.Split(rank % 2, rank)
said.append((rank, half.allreduce(rank)))
requests = [half.isend(i, dest=(half.rank + 1) % half.size, tag=i) for i in range(3)]
said.append((rank, [half.recv(source=(half.rank - 1) % half.size, tag=i) for i in range(3)]))
MPI.Request.waitall(requests)
half.Free()

for lines in world.gather([str(line) for line in said]) or ():
    print("\n".join(lines))
