// SPDX-License-Identifier: Apache-2.0
//
// For a process that waits for the end of another one: it closes what it has inherited, so that the
// end of a pipe or of a connection does not wait for it.
//
//     close_others(kept);
#pragma once

#include <vector>

namespace cryo {

// Closes all descriptors but these, which ascend; makes system calls only.
void close_others(const std::vector<int> &kept);

} // namespace cryo
