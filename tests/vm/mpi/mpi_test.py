#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An MPI job on this kernel, whose ranks the module saves and brings back. `nodes` goes from two nodes
to two others, which are namespaces: that one needs root.

    mpi_test.py --tests DIRECTORY --bin BIN --mpirun MPIRUN --programs DIRECTORY traffic|windows|nodes
"""
import argparse
import os
import subprocess
import sys

# Test, program and arguments, transport, how it is saved.
JOBS = {
    "traffic": ("job_test.py", ["traffic", "300"], "vader",
                ["--seconds", "0", "--generations", "1", "--pass", "1"]),
    "windows": ("job_test.py", ["windows", "100"], "vader", ["--seconds", "0", "--generations", "1"]),
    "nodes": ("nodes_test.py", ["traffic", "150"], "both",
              ["--on", "first,second", "--on", "third,fourth"]),
} # --seconds 0: here all take long


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--tests", "--bin", "--mpirun", "--programs"):
        parser.add_argument(name, required=True)
    parser.add_argument("job", choices=JOBS)
    options = parser.parse_args()
    if not os.access("/dev/cryo", os.R_OK):
        sys.exit("the module is not loaded")
    settings = dict(os.environ, OMPI_MCA_hook_cryo_backend="kmod") # that one, or none
    test, words, transport, how = JOBS[options.job]
    if test == "nodes_test.py":
        subprocess.run(["/usr/sbin/modprobe", "-a", "bridge", "veth"], check=True)
    command = [sys.executable, "-B", f"{options.tests}/{test}", "--bin", options.bin, "--mpirun",
               options.mpirun, "--ranks", "2", "--transport", transport, "--patience", "300", *how,
               "--", f"{options.programs}/{words[0]}", *words[1:]]
    print(test, " ".join(words), transport, flush=True)
    if subprocess.run(command, env=settings, check=False).returncode != 0:
        sys.exit(f"failed: {test} {words[0]}")


if __name__ == "__main__":
    main()
