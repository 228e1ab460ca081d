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
// own, under a window of MPI_Win_create, which is saved at less cost. But within a node Open MPI
// has MPI_Win_allocate's in shared memory, which is some hundred times as fast, and 4.1 has nothing
// else with MPI_THREAD_MULTIPLE and without a network for one-sided communication.
#pragma once

#include "mpi/rank/windows.hpp"

namespace cryo::mpi {

bool map_alias(rank::Window &window); // false: not as it was, or no memory
bool map_own(rank::Window &window, void *base);
bool starts_alike(const void *a, const void *b); // in a page
void *in_alias(const rank::Window &window, const void *real);

// MPI_Win_allocate's memory is better the library's where the members are on one node.
bool prefers_library_memory(MPI_Comm comm);
// Of all members of a communicator of the library's: whether they are on one node.
bool shares_memory(MPI_Comm comm);
// The library's MPI_Win_allocate for such a communicator, in memory that can be mapped twice.
int allocate_window(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void **base,
                    MPI_Win *win);

// The value of a predefined attribute, where the library's own is not what the program shall see.
void translate_window_attribute(const Object *object, int keyval, long *value);

} // namespace cryo::mpi
