// SPDX-License-Identifier: Apache-2.0
//
// Memory of windows that is the library's lies in the capsule. The program has it at a second
// place, which is Cryo's and stays when the library goes:
//
//     if (map_alias(window))                        // all of a shared window
//     if (map_own(window, base))                    // this process' part of a window
//         void *ours = in_alias(window, real);      // for an address that the library told
//
// Both also in a restored copy, over what was saved. Otherwise MPI_Win_allocate's memory is Cryo's
// own, under a window of MPI_Win_create, which is saved at less cost. But Open MPI 4.1 does without
// a network for one-sided communication, with MPI_THREAD_MULTIPLE, only what its component for
// shared memory does: MPI_Win_allocate and _allocate_shared within a node.
#pragma once

#include "mpi/rank/windows.hpp"

namespace cryo::mpi {

bool map_alias(rank::Window &window); // false: not as it was, or no memory
bool map_own(rank::Window &window, void *base);
bool starts_alike(const void *a, const void *b); // in a page
void *in_alias(const rank::Window &window, const void *real);

// MPI_Win_create may be refused, in this library and at this level of threads.
bool needs_library_memory();
// Of all members of a communicator of the library's: whether they are on one node.
bool shares_memory(MPI_Comm comm);
// The library's MPI_Win_allocate for such a communicator, in memory that can be mapped twice.
int allocate_window(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void **base,
                    MPI_Win *win);

// The value of a predefined attribute, where the library's own is not what the program shall see.
void translate_window_attribute(const Object *object, int keyval, long *value);

} // namespace cryo::mpi
