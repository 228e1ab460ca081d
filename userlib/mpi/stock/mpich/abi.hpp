// SPDX-License-Identifier: Apache-2.0
//
// The binary interface of MPICH 4, whose handles are integers, as far as MPI libraries differ in
// it.
//
// The included mpi.h is derived from MPICH's by mpich.py: each kind of handle is a distinct type
// there, as large as an integer and passed like one. The program's handles of predefined objects
// are the library's; all others are numbers of ours.
#pragma once

#include "mpi/stock/family.hpp"
#include "mpi/stock/mpich/handle.hpp"

#define MPICH_SKIP_MPICXX 1
#define HAVE_VISIBILITY 1 // what it declares is exported
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <mpi.h>

#include <cstdint>

namespace cryo::mpi::abi {

constexpr Family family = Family::mpich;
constexpr char library_name[] = "libmpich.so.12";
// The variable that gives a rank the descriptor of its connection to the launcher.
constexpr const char *launcher_descriptor = "PMI_FD";

// A message's size and whether it was cancelled, in its status: 63 bits and 1 bit.
inline uint64_t bytes_in(const MPI_Status &status)
{
    return static_cast<uint32_t>(status.count_lo) |
           static_cast<uint64_t>(static_cast<uint32_t>(status.count_hi_and_cancelled) >> 1) << 32;
}
inline void set_bytes(MPI_Status &status, uint64_t bytes)
{
    status.count_lo = static_cast<int>(bytes);
    status.count_hi_and_cancelled =
        static_cast<int>((bytes >> 32) << 1) | (status.count_hi_and_cancelled & 1);
}
inline bool is_cancelled(const MPI_Status &status)
{
    return (status.count_hi_and_cancelled & 1) != 0;
}
inline void set_cancelled(MPI_Status &status, bool cancelled)
{
    status.count_hi_and_cancelled = (status.count_hi_and_cancelled & ~1) | (cancelled ? 1 : 0);
}

// An error code contains its class.
inline bool is_truncation(int error)
{
    return (error & 0x7f) == MPI_ERR_TRUNCATE;
}

// Converts a source between the program's encoding and the bookmark exchange's (-1: any, -2:
// MPI_PROC_NULL), in both directions: MPICH has these two swapped.
constexpr int peer(int source)
{
    if (source == MPI_ANY_SOURCE)
        return MPI_PROC_NULL;
    return source == MPI_PROC_NULL ? MPI_ANY_SOURCE : source;
}

// See openmpi/abi.hpp.
constexpr bool copies_take_steps = false;
// MPI_COMM_WORLD's error handler serves communicators and windows without one of their own, which
// report MPI_ERRORS_ARE_FATAL; and it serves all requests but persistent ones.
constexpr bool world_answers = true;
constexpr bool allocates_shared_memory = false;
constexpr bool sequential_files_tell = false;

// Weights of a graph: may be constants that are not arrays, but addresses in the
// library.
const int *library_weights(const int *weights);
template <class Weight>
Weight *real_weights(Weight *weights)
{
    return const_cast<Weight *>(library_weights(weights));
}

// Slots for predefined attributes: below 4 for those of windows, below 64 for all.
constexpr int attribute_slot(int keyval)
{
    return keyval & 0x3f;
}
constexpr int window_slot(int keyval)
{
    return keyval >> 1 & 3;
}

// What two keyvals that exist at one time never share: the number without the kind of object, four
// bits from bit 22 on. All kinds have one table in the library.
constexpr int keyval_place(int keyval)
{
    return keyval & ~0x03c00000;
}

// The program's handles of each kind (objects.hpp) are the numbers above this one, which the
// library does not use; this number is the null handle. 0: handles are addresses. From the highest
// bit on, the library's handles have 2 bits for the storage class (0: none) and 4 for the kind.
constexpr uint32_t first_handle(size_t kind)
{
    //                      Comm Type Errh File Group Info Op Request Message Win Session
    constexpr uint32_t types[] = {1, 3, 5, 0, 2, 7, 6, 0xb, 0xb, 8, 0xe};
    return types[kind] << 26;
}

constexpr MPI_Fint number_of_no_file = 0;

} // namespace cryo::mpi::abi
