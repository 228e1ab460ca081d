// SPDX-License-Identifier: Apache-2.0
//
// The binary interface of Open MPI 4 and 5, as far as MPI libraries differ in it. (mpich/abi.hpp is
// the counterpart for MPICH; the library being built determines which one is included.)
#pragma once

#include "mpi/stock/family.hpp"

#define OMPI_SKIP_MPICXX 1
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <mpi-ext.h>

#if MPI_VERSION < 4
struct ompi_instance_t;
using MPI_Session = ompi_instance_t *;
#endif

namespace cryo::mpi::abi {

constexpr Family family = Family::open_mpi;
constexpr char library_name[] = "libmpi.so.40";
// The variable that gives a rank the descriptor of its connection to the launcher; null: none.
constexpr const char *launcher_descriptor = nullptr;

// A message's size, in its status.
inline uint64_t bytes_in(const MPI_Status &status)
{
    return status._ucount;
}
inline void set_bytes(MPI_Status &status, uint64_t bytes)
{
    status._ucount = bytes;
}
inline bool is_cancelled(const MPI_Status &status)
{
    return status._cancelled != 0;
}
inline void set_cancelled(MPI_Status &status, bool cancelled)
{
    status._cancelled = cancelled ? 1 : 0;
}

inline bool is_truncation(int error)
{
    return error == MPI_ERR_TRUNCATE;
}

// Converts a source to the bookmark exchange's encoding (-1: any, -2: MPI_PROC_NULL), or back.
constexpr int peer(int source)
{
    return source;
}

// MPI_Comm_idup takes several steps on the communicator that is copied, each of which begins when
// the library makes progress: their order relative to the collectives that the program starts there
// depends on when that happens.
constexpr bool copies_take_steps = true;

// Every communicator and window has an error handler: its own, or else its parent's.
constexpr bool world_answers = false;

// MPI_Win_allocate uses shared memory within a node, where puts are stores. In 4.1, other windows
// work with MPI_THREAD_MULTIPLE only over a network.
constexpr bool allocates_shared_memory = true;

// For a file opened for sequential access, the library reports and can restore the position of its
// processes.
constexpr bool sequential_files_tell = true;

// Weights of a graph: may be constants that are not arrays.
template <class Weight>
Weight *real_weights(Weight *weights)
{
    return weights;
}

// Slots for predefined attributes: below 4 for those of windows, below 64 for all.
constexpr int attribute_slot(int keyval)
{
    return keyval;
}
constexpr int window_slot(int keyval)
{
    return keyval % 4;
}

// The part of a keyval that no two existing keyvals share.
constexpr int keyval_place(int keyval)
{
    return keyval;
}

// Handles are addresses.
constexpr uint32_t first_handle(size_t /*kind*/)
{
    return 0;
}

constexpr MPI_Fint number_of_no_file = -1;

} // namespace cryo::mpi::abi
