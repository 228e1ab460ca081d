// SPDX-License-Identifier: Apache-2.0
//
// Memory that the library shares among processes lies in the capsule. The program has it at a
// second place, which is Cryo's and stays when the library goes:
//
//     if (map_alias(window))                        // also in a restored copy, over what was saved
//         void *ours = in_alias(window, real);      // for an address that the library told
#pragma once

#include "mpi/rank/windows.hpp"

namespace cryo::mpi {

bool map_alias(rank::Window &window); // false: not as it was, or no memory
void *in_alias(const rank::Window &window, const void *real);

// The value of a predefined attribute, where the library's own is not what the program shall see.
void translate_window_attribute(const Object *object, int keyval, long *value);

} // namespace cryo::mpi
