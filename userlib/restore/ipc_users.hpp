// SPDX-License-Identifier: Apache-2.0
//
// Who uses a System V object that is still there when its processes come back. Of processes that
// only wait or have waited the kernel says little; what it says is gathered here.
#pragma once

#include "base/result.hpp"
#include "image/records.hpp"

namespace cryo::restore {

// Until nobody uses the object any more: those who are ending are waited for. EBUSY, naming who
// does otherwise.
Result<void> await_unused(const image::Ipc &ipc, int patience_ms = 5000);

std::string name_of(const image::Ipc &ipc);

} // namespace cryo::restore
