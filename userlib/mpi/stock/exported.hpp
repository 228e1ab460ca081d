// SPDX-License-Identifier: Apache-2.0
//
// Exports functions that the program links to as if they were the stock library's.
//
//     EXPORTED int PMPI_Barrier(MPI_Comm comm)
//     {
//         ...
//     }
//     ALIAS(MPI_Barrier, PMPI_Barrier)
#pragma once

#define EXPORTED extern "C" [[gnu::visibility("default")]]

// Profiling tools define MPI_ names over the weak ones and call PMPI_.
#define ALIAS(name, target)                                                                        \
    extern "C" [[gnu::visibility("default"), gnu::weak, gnu::alias(#target)]] decltype(target)     \
        name; // NOLINT(bugprone-macro-parentheses): what is declared
