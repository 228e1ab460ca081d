# SPDX-License-Identifier: Apache-2.0
"""Loads the profiling tool that the argument names in front of the MPI library, as mpi4py can."""
import sys

import mpi4py

mpi4py.profile(sys.argv[1])
from mpi4py import MPI  # noqa: E402

MPI.COMM_WORLD.allreduce(1)
