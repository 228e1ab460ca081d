#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every MPI function that Open MPI 5.0 exports is there in the library that is preloaded, too.

    covered_test.py --preload libcryo_openmpi.so
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import inside  # noqa: E402

FUNCTION = re.compile(r"P?MPIX?_\w*[a-z]\w*$") # not Fortran's constants, all in capitals


def functions(library):
    told = subprocess.run(["nm", "-D", "--defined-only", library], text=True, check=True,
                          capture_output=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in told.splitlines()}
    return {name for name in names if FUNCTION.match(name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preload", required=True)
    options = parser.parse_args()
    stock = functions(inside.tree() / "usr/lib/x86_64-linux-gnu/libmpi.so.40")
    missing = sorted(stock - functions(options.preload))
    if missing or len(stock) < 800:
        sys.exit(f"{len(stock)} functions, of which these are missing: {' '.join(missing)}")
    print(f"{len(stock)} functions")


if __name__ == "__main__":
    main()
