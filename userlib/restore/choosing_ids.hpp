// SPDX-License-Identifier: Apache-2.0
//
// Whether restored processes can get their saved ids: clone3() requires
// CAP_CHECKPOINT_RESTORE in the user namespace that owns the pid
// namespace, the kernel module requires write access to its device.
#pragma once

#include "base/result.hpp"
#include "restorer/next_id.hpp"

#include <cstdint>
#include <sys/types.h>

namespace cryo::restore {

bool may_choose_ids(bool with_module);

// EBUSY if others have this id of a process group, or of a session; 0: is not asked for. With new
// process ids, they are then not the saved ones, as in BLCR. One's own are no reason.
Result<void> check_unused(uint32_t pgid, uint32_t sid);

// The ids of a device (−1: there is none), with the present next id as `home`. This only looks:
// what another process has chosen stays the next id. `load` is /proc/loadavg.
Ids ids_of(int device, const char *load = "/proc/loadavg");

// The cause of an ENOSYS of clone3(), which every supported kernel has.
constexpr const char *clone3_denied = "a filter of system calls (seccomp, as containers have one) "
                                      "denies clone3(), which ids are chosen with";

// Whether the caller may not choose an id, or chose one that cannot exist.
bool is_about_choosing(int error);
Error not_chosen(pid_t pid, int error);

} // namespace cryo::restore
