// SPDX-License-Identifier: Apache-2.0
//
// Whether restored processes can get their saved ids: clone3() requires
// CAP_CHECKPOINT_RESTORE in the user namespace that owns the pid
// namespace, the kernel module requires write access to its device.
#pragma once

namespace cryo::restore {

bool may_choose_ids(bool with_module);

} // namespace cryo::restore
