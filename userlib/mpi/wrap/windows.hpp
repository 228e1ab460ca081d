// SPDX-License-Identifier: Apache-2.0
//
// Window memory of the library lies in the capsule. The program sees it at a second address, which
// is Cryo's and stays when the library is replaced:
//
//     if (map_alias(window))                        // all of a shared window
//     if (map_own(window, base))                    // this process' part of a window
//         void *ours = in_alias(window, real);      // for an address the library returned
//
// Both also work in a restored copy, over the saved contents. Otherwise MPI_Win_allocate's memory
// is Cryo's, under a window of MPI_Win_create, which costs less to save. But within a node Open MPI
// puts MPI_Win_allocate's into shared memory, which is some hundred times as fast, and 4.1 has no
// alternative with MPI_THREAD_MULTIPLE and without a network for one-sided communication.
#pragma once

#include "mpi/rank/windows.hpp"

namespace cryo::mpi {

bool map_alias(rank::Window &window); // false: the layout has changed, or no memory
bool map_own(rank::Window &window, void *base);
bool starts_alike(const void *a, const void *b); // whether both have the same offset in a page
void *in_alias(const rank::Window &window, const void *real);

// Whether MPI_Win_allocate should use the library's memory if the members are on one node.
bool prefers_library_memory(MPI_Comm comm);
// Whether all members of a library's communicator are on one node; called by all of them.
bool shares_memory(MPI_Comm comm);
// The library's MPI_Win_allocate for such a communicator, in memory that can be mapped twice.
int allocate_window(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void **base,
                    MPI_Win *win);

// Reports that Cryo has no room for this many bytes; the result for the program.
int no_room(MPI_Comm comm, MPI_Aint bytes);

// Replaces a predefined attribute's value where the program must see another than the library's.
void translate_window_attribute(const Object *object, int keyval, long *value);

} // namespace cryo::mpi
