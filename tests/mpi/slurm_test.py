#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A command in a Slurm of one node.

    slurm_test.py COMMAND ARGUMENT ...
"""
import contextlib
import os
import subprocess
import sys
import tempfile

import run_mpi

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "slurm"))
from cluster import Slurm # noqa: E402


def main():
    # Root's squeue reads only settings that no other user can have put there.
    top = "/run" if os.geteuid() == 0 else "/tmp"
    with tempfile.TemporaryDirectory(prefix="cryo-sl-", dir=top) as place:
        with contextlib.ExitStack() as cluster:
            with run_mpi.eager(run_mpi.environment(place, "vader")): # ranks have the weight of slurmd
                cluster.enter_context(Slurm(place))
            return subprocess.run(sys.argv[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
