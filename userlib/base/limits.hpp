// SPDX-License-Identifier: Apache-2.0
//
// The system's limits for Cryo's commands.
//
//     allow_descriptors();     // before a tree is saved or restored
#pragma once

namespace cryo {

// Raises the descriptor limit as far as possible, for a privileged user beyond the hard limit: each
// process of a tree takes several.
void allow_descriptors();

} // namespace cryo
