// SPDX-License-Identifier: Apache-2.0
//
// Whether restored processes can get their saved ids: clone3() requires
// CAP_CHECKPOINT_RESTORE in the user namespace that owns the pid
// namespace, the kernel module requires write access to its device.
#pragma once

#include "restore/restorer/next_id.hpp"

namespace cryo::restore {

bool may_choose_ids(bool with_module);

// The ids of a device (−1: there is none), with the present next id as `home`. This only looks:
// what another process has chosen stays the next id.
Ids ids_of(int device);

} // namespace cryo::restore
