// SPDX-License-Identifier: Apache-2.0
//
// What the system allows a command of ours.
//
//     allow_descriptors();     // before a tree is saved or brought back
#pragma once

namespace cryo {

// As many descriptors as there may ever be, for a privileged user beyond the hard limit: each
// process of a tree takes several.
void allow_descriptors();

} // namespace cryo
