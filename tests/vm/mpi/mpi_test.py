#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI jobs on this kernel, whose ranks the module saves and brings back: one boot, some programs. As
root also one that goes from two nodes to two others, which are namespaces.

    mpi_test.py --tests DIRECTORY --bin BIN --mpirun MPIRUN --programs DIRECTORY
"""
import argparse
import os
import subprocess
import sys

# Program and arguments, ranks, transport, how it is saved.
JOBS = [
    (["traffic", "300"], 2, "vader", ["--generations", "1", "--pass", "1"]),
    (["windows", "100"], 2, "vader", ["--generations", "1"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--tests", "--bin", "--mpirun", "--programs"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    if not os.access("/dev/cryo", os.R_OK):
        sys.exit("the module is not loaded")
    settings = dict(os.environ, OMPI_MCA_hook_cryo_backend="kmod") # that one, or none
    jobs = [("job_test.py", words, ranks, transport, ["--seconds", "0", *how])
            for words, ranks, transport, how in JOBS] # here all take long
    if os.geteuid() == 0:
        subprocess.run(["/usr/sbin/modprobe", "-a", "bridge", "veth"], check=True)
        jobs.append(("nodes_test.py", ["traffic", "150"], 2, "both",
                     ["--on", "first,second", "--on", "third,fourth"]))
    failed = []
    for test, words, ranks, transport, how in jobs:
        command = [sys.executable, "-B", f"{options.tests}/{test}", "--bin", options.bin, "--mpirun",
                   options.mpirun, "--ranks", str(ranks), "--transport", transport, "--patience",
                   "150", *how, "--", f"{options.programs}/{words[0]}", *words[1:]]
        print(test, " ".join(words), transport, flush=True)
        if subprocess.run(command, env=settings, check=False).returncode != 0:
            failed.append(f"{test} {words[0]}")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
