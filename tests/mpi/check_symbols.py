#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a rank does while it stands still, and in a restored copy before the interrupted code goes on,
may be in the middle of dlopen, malloc or stdio: it takes no lock of the C library's and no memory of
the program's. Checks what the objects of Cryo's MPI libraries need.

    check_symbols.py NM OBJECT...

ORDINARY are the objects with functions that nobody calls then: each with what it needs for these, and
why it may.
"""
import subprocess
import sys
from pathlib import Path

# Neither locks nor memory. The texts that are put together have no widths, and no numbers with points.
HARMLESS = set("""
    memchr memcmp memcpy memmem memmove memset stpcpy strchr strlen strncmp strnlen strrchr
    strtol strtoul snprintf vsnprintf strerrordesc_np
    environ getauxval getpid clock_gettime pthread_self _exit __errno_location
    """.split())
# To another thread: its lock is held by threads that have blocked all signals only.
HARMLESS.add("pthread_kill")
# Of the C++ library, which is inside: trees and lists, and buffers that ask their resource.
HARMLESS |= {
    "_ZNSt3pmr20null_memory_resourceEv", "_ZNSt3pmr25monotonic_buffer_resource13_M_new_bufferEmm",
    "_ZNSt3pmr25monotonic_buffer_resourceD1Ev", "_ZNSt3pmr15memory_resourceD2Ev"}
TREES = ("_ZSt18_Rb_tree_", "_ZSt28_Rb_tree_", "_ZSt29_Rb_tree_", "_ZNSt8__detail15_List_node_base")
# The rank is lost when these are called; _ZdlPvm is in tables of virtual functions only.
LAST = set("""
    __assert_fail abort _ZSt20__throw_length_errorPKc _ZSt24__throw_out_of_range_fmtPKcz
    __cxa_begin_catch __cxa_end_catch __cxa_rethrow _Unwind_Resume __gxx_personality_v0 _ZdlPvm
    """.split())

DAEMONS = {"clocks_below", "counts_below", "describe", "node", "topology"} # in no rank
ORDINARY = {
    "program": ("dladdr realpath", "asked in MPI_Init"),
    "threads": ("pthread_key_create pthread_setspecific",
                "the key is one of the first 32, whose values lie in the thread itself"),
    "capsule": ("exit", "exit() of the MPI library, in a function of the program's"),
    "program_close": ("dlsym", "functions that the program calls"),
    "signals": ("dlsym", "functions that the program calls"),
    "files": ("realpath", "MPI_File_open"),
    "fortran": ("calloc malloc free dlopen dlsym dlclose",
                "functions for the Fortran library; the rest is asked in MPI_Init"),
    "newer_fortran": ("malloc free", "functions for the Fortran library"),
    "launcher": ("close fstat getenv getppid getsockopt open pthread_atfork read", "before the program begins"),
    "engine": ("sigaction", "in MPI_Init"),
    "ends": ("on_exit", "in MPI_Init"),
    "strangers": ("dl_iterate_phdr", "at the first call of MPI, of a rank that is not brought back"),
    "profilers": ("_DYNAMIC _r_debug __start_cryo_fronts __stop_cryo_fronts strcmp",
                  "before the program begins, and at the first call of MPI"),
    "report": ("dprintf open close", "in MPI_Finalize"),
    "packet_link": ("close connect fcntl gettid recv send sigaction socket", "in tests"),
}


def undefined(nm, path):
    listing = subprocess.run([nm, "--undefined-only", "--format=just-symbols", path],
                             capture_output=True, text=True, check=True)
    return set(listing.stdout.split())


def is_own(symbol):
    """Of Cryo, of MPI, or made by the compiler."""
    return symbol.startswith(("_ZN4cryo", "_ZNK4cryo", "_ZTV", "_ZTI", "_ZThn", "cryo_", "PMPI_", "MPI_",
                              "PMPIX_", "MPIX_", "ompi_", "mpi_", "MPIR_", "_GLOBAL_OFFSET"))


def main():
    nm, *objects = sys.argv[1:]
    wrong, seen = [], {}
    for path in objects:
        name = Path(path).name.split(".")[0]
        if name in DAEMONS:
            continue
        allowed = set(ORDINARY[name][0].split()) if name in ORDINARY else set()
        needed = undefined(nm, path)
        seen.setdefault(name, set()).update(needed)
        for symbol in needed - HARMLESS - LAST - allowed:
            if not is_own(symbol) and not symbol.startswith(TREES):
                wrong.append(f"{path} needs {symbol}")
    for name, (symbols, _) in ORDINARY.items():
        for symbol in set(symbols.split()) - seen.get(name, set()):
            wrong.append(f"{name} does not need {symbol} any more: it stands in {Path(__file__).name}")
    print("\n".join(sorted(wrong)) or f"{len(objects)} objects take no lock of the program's")
    return 1 if wrong or len(objects) < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
