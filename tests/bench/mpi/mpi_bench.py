#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the capsule adds to MPI calls: jobs with and without it, in turns; medians are compared.

    mpi_bench [--full]
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join("@PROJECT_SOURCE_DIR@", "tests", "mpi"))
from run_mpi import environment  # noqa: E402 (needs the path above)

PROGRAM = "@CMAKE_CURRENT_BINARY_DIR@/mpi_calls"
LIBRARY = "@PROJECT_BINARY_DIR@/@CMAKE_INSTALL_LIBDIR@/cryo/libcryo_openmpi.so"
MPIRUN = "@CRYO_MPIRUN@"
CALLS = ("call", "ping-pong", "tested-ping-pong", "test", "allreduce", "waitall")
# Nanoseconds that the capsule may add, on shared memory.
TARGETS = {"call": 30, "ping-pong": 50, "tested-ping-pong": 50, "test": 30, "allreduce": 50}


def run(transport, preload, full):
    """Nanoseconds by the name of what was measured."""
    with tempfile.TemporaryDirectory(prefix="cryo-mpi-") as directory:
        settings = environment(directory, transport)
        # A measurement has a processor for each rank; a test may have to share.
        settings["OMPI_MCA_mpi_yield_when_idle"] = "0" if full else "1"
        command = [MPIRUN, "-n", "2"] + (["-x", f"LD_PRELOAD={LIBRARY}"] if preload else [])
        output = subprocess.run(command + [PROGRAM, "20000" if full else "50"], env=settings, text=True,
                                capture_output=True, timeout=300, check=True).stdout
    return {name: float(value) for name, value in (line.split() for line in output.splitlines())}


def compare(transport, full):
    natively, hosted = [], []
    for pair in range(9 if full else 1):
        for preload in (False, True) if pair % 2 else (True, False):
            (hosted if preload else natively).append(run(transport, preload, full))
    for name in CALLS:
        before = statistics.median(one[name] for one in natively)
        after = statistics.median(one[name] for one in hosted)
        added = after - before
        line = f"    {transport} {name}: {before:.0f} -> {after:.0f} ns, ratio"
        verdict = ""
        if transport == "vader" and name in TARGETS:
            met = "met" if added <= TARGETS[name] else "MISSED"
            verdict = f"   adds {added:.0f} ns, target {TARGETS[name]}  {met}"
        print(f"{line:62} {after / before:6.2f}{verdict}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure; otherwise only see that it runs")
    full = parser.parse_args().full
    for transport in ("vader", "tcp"):
        compare(transport, full)


if __name__ == "__main__":
    main()
