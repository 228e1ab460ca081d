#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs in a rank runs while the program stands still, perhaps inside malloc: checks that its
objects take memory only from the resource they are given.

    check_heap.py NM OBJECT...

The nodes of the tree are in daemons, where the heap is their own.
"""
import os
import subprocess
import sys

RANK = {"collectives.cpp.o", "comm.cpp.o", "communicators.cpp.o", "needs.cpp.o", "rank.cpp.o",
        "receives.cpp.o", "reports.cpp.o", "versions.cpp.o", "wire.cpp.o"}
HEAP = ("_Znw", "_Zna", "_Zdl", "_Zda", "malloc", "calloc", "realloc", "free", "posix_memalign",
        "aligned_alloc", "strdup")


def main():
    nm, *objects = sys.argv[1:]
    seen, wrong = set(), []
    for path in objects:
        name = os.path.basename(path)
        if name not in RANK:
            continue
        seen.add(name)
        listing = subprocess.run([nm, "--undefined-only", "--format=just-symbols", path],
                                 capture_output=True, text=True, check=True)
        wrong += [f"{name} needs {symbol}" for symbol in listing.stdout.split()
                  if symbol in HEAP or symbol.startswith(HEAP[:4])]
    if seen != RANK:
        wrong.append(f"no object {', '.join(sorted(RANK - seen))}")
    print("\n".join(sorted(wrong)) or f"{len(seen)} objects know no heap")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
