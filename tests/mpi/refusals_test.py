#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cannot be is refused in one line that names the thing and the way out, before MPI starts.

    refusals_test.py --preload libcryo_openmpi.so --program ./hello
"""
import argparse
import os
import subprocess
import sys
import unittest

OPTIONS = None


def run(limits="", **settings):
    """Exit code and error output of the program, without mpirun: it must not come that far."""
    environment = dict(os.environ, LD_PRELOAD=OPTIONS.preload, **settings)
    done = subprocess.run(["sh", "-c", f"{limits} exec {OPTIONS.program}"], env=environment,
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr


class Refusals(unittest.TestCase):
    def refused(self, expected, **how):
        code, errors = run(**how)
        self.assertEqual(code, 1, errors)
        self.assertRegex(errors, r"\Acryo: .*" + expected)

    def test_library_that_is_not_there(self):
        self.refused("cannot be loaded: libnothing.so.7", CRYO_MPI_LIBRARY="libnothing.so.7")

    def test_library_that_is_not_mpi(self):
        self.refused("libm.so.6 has no function PMPI_", CRYO_MPI_LIBRARY="libm.so.6")

    def test_addresses_that_are_taken(self):
        self.refused("are not free.*CRYO_CAPSULE_ADDRESS", CRYO_CAPSULE_ADDRESS="0x7ffff0000000")

    def test_too_little_address_space(self):
        self.refused("ulimit -v", limits="ulimit -v 1000000;")

    def test_too_few_descriptors(self):
        self.refused("ulimit -n", limits="ulimit -n 40;")

    def test_missing_program(self):
        self.refused("/does/not/exist", CRYO_CAPSULE_PROGRAM="/does/not/exist")

    def test_program_that_is_none(self):
        self.refused("not a position-independent program", CRYO_CAPSULE_PROGRAM="/etc/passwd")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preload", required=True)
    parser.add_argument("--program", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
