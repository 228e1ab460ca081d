#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs inside a stopped program may call nothing of libc: checks what the objects need.

    check_symbols.py NM OBJECT...

init.cpp, enter.cpp and interposed_*.cpp run in ordinary surroundings, before the program, instead of it,
or called by it; callback_thread.cpp does where the program calls libcr, and in libcr's own thread.
"""
import os
import subprocess
import sys

ORDINARY = ("init.cpp.o", "enter.cpp.o", "blob.S.o", "callback_thread.cpp.o",
            "interposed_descriptors.cpp.o", "interposed_signals.cpp.o")
# Plain copies that the compiler makes calls of: async-signal-safe, no state, no locks.
ALLOWED = {"_GLOBAL_OFFSET_TABLE_", "memcpy", "memset", "memmove", "__rseq_offset", "__rseq_size"}


def undefined(nm, path):
    listing = subprocess.run([nm, "--undefined-only", "--format=just-symbols", path],
                             capture_output=True, text=True, check=True)
    return set(listing.stdout.split())


def main():
    nm, *objects = sys.argv[1:]
    checked, wrong = 0, []
    for path in objects:
        if os.path.basename(path) in ORDINARY:
            continue
        checked += 1
        for symbol in undefined(nm, path) - ALLOWED:
            if not symbol.startswith(("cryo_", "_ZN4cryo")):
                wrong.append(f"{os.path.basename(path)} needs {symbol}")
    print("\n".join(sorted(wrong)) or f"{checked} objects need nothing of libc")
    return 1 if wrong or checked < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
