// SPDX-License-Identifier: Apache-2.0
//
// Whether a restored process can have the id that it had: clone3() gives it to those with
// CAP_CHECKPOINT_RESTORE in the user namespace that the pid namespace belongs to, the kernel module
// to those who may write to its device.
#pragma once

namespace cryo::restore {

bool may_choose_ids(bool with_module);

} // namespace cryo::restore
