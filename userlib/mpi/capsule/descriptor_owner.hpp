// SPDX-License-Identifier: Apache-2.0
//
// The process that the capsule's descriptors belong to: a child made by fork or vfork has copies
// and may close them.
//
//     if (owns_descriptor(fd) && descriptor_owner() == getpid()) ...
#pragma once

namespace cryo::capsule {

int descriptor_owner();

} // namespace cryo::capsule
