// SPDX-License-Identifier: Apache-2.0
//
// The process that the capsule's descriptors belong to: a child made by fork or vfork has copies
// and may close them.
//
//     if (owns_descriptor(fd) && descriptor_owner() == getpid()) ...
#pragma once

namespace cryo::capsule {

int descriptor_owner();

// In such a child: notes what it has inherited. Afterwards it may use the numbers for other files.
void note_inherited_descriptors();
// Whether it still has that copy.
bool inherits_descriptor(int descriptor);

} // namespace cryo::capsule
