// SPDX-License-Identifier: Apache-2.0
//
// Exports functions that the program links to as if they were the stock library's.
//
//     EXPORTED int PMPI_Barrier(MPI_Comm comm)
//     {
//         ...
//     }
//     ALIAS(MPI_Barrier, PMPI_Barrier)
//     SPELLING(mpi_dup_fn_, mpi_dup_fn)
//
// A SPELLING is the same address. An ALIAS is a jump to the function, or to that of a profiling
// tool (mpi/wrap/profilers.hpp): tools define MPI_ names and call PMPI_.
#pragma once

#define EXPORTED extern "C" [[gnu::visibility("default")]]

#define SPELLING(name, target)                                                                     \
    extern "C" [[gnu::visibility("default"), gnu::weak, gnu::alias(#target)]] decltype(target)     \
        name; // NOLINT(bugprone-macro-parentheses): what is declared

namespace cryo::mpi {

// Of each ALIAS; together they are a section.
struct Front {
    const char *name;
    const void *function; // where the jump leads
    const void *own;
};

} // namespace cryo::mpi

#ifdef CRYO_WITHOUT_FRONTS // a unit test, which is linked with few of the functions
#define ALIAS(name, target) SPELLING(name, target)
#else
// The function has a hidden name besides, as others may define PMPI_ ones, too.
#define ALIAS(name, target)                                                                        \
    extern "C"                                                                                     \
        [[gnu::visibility("hidden"), gnu::alias(#target)]] decltype(target) cryo_own_##name;       \
    asm(".pushsection .rodata.str1.1, \"aMS\", @progbits, 1\n"                                     \
        "1: .asciz \"" #name "\"\n"                                                                \
        ".popsection\n"                                                                            \
        ".pushsection cryo_fronts, \"aw\", @progbits\n"                                            \
        ".balign 8\n"                                                                              \
        "2: .quad 1b, cryo_own_" #name ", cryo_own_" #name "\n"                                    \
        ".popsection\n"                                                                            \
        ".pushsection .text, \"ax\", @progbits\n"                                                  \
        ".balign 16\n"                                                                             \
        ".globl " #name "\n"                                                                       \
        ".type " #name ", @function\n" #name ":\n"                                                 \
        ".cfi_startproc\n"                                                                         \
        "jmp *2b+8(%rip)\n"                                                                        \
        ".cfi_endproc\n"                                                                           \
        ".size " #name ", . - " #name "\n"                                                         \
        ".popsection");
#endif
