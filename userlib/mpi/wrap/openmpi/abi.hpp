// SPDX-License-Identifier: Apache-2.0
//
// Where the binary interfaces of MPI libraries differ: Open MPI 4 and 5. (mpich/abi.hpp is the same
// for MPICH; which one is included is a matter of the library that is made.)
#pragma once

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

constexpr char library_name[] = "libmpi.so.40";
// The variable by which a rank knows the descriptor that leads to its launcher.
constexpr const char *launcher_descriptor = nullptr;

// In a message, by its status.
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

// A source as the bookmark exchange has it (-1: any, -2: nobody), from the program's, or back.
constexpr int peer(int source)
{
    return source;
}

// MPI_Comm_idup takes several steps on the communicator that is copied, each of which begins when
// the library makes progress: in what order to the collectives that the program begins there,
// depends on when that is.
constexpr bool copies_take_steps = true;

// Every communicator and window has an error handler: where it has none of its own, its parent's.
constexpr bool world_answers = false;

// MPI_Win_allocate's memory, within a node: puts are stores. With MPI_THREAD_MULTIPLE 4.1 has other
// windows only over a network for them.
constexpr bool allocates_shared_memory = true;

// Of a file that is open for sequential access, where in it the processes are; and they may be put
// there again.
constexpr bool sequential_files_tell = true;

// Weights of a graph, which may be constants that are no arrays.
template <class Weight>
Weight *real_weights(Weight *weights)
{
    return weights;
}

// A number below 4 for each predefined attribute of windows, and below 64 for all.
constexpr int attribute_slot(int keyval)
{
    return keyval;
}
constexpr int window_slot(int keyval)
{
    return keyval % 4;
}

// Handles are addresses.
constexpr uint32_t first_handle(size_t /*kind*/)
{
    return 0;
}

constexpr MPI_Fint number_of_no_file = -1;

} // namespace cryo::mpi::abi
