// SPDX-License-Identifier: Apache-2.0
//
// What the members share by clone(2), besides memory and open files: a child that shares its
// parent's is made by it in the same way at a restart. Other sharing is refused.
#pragma once

#include "capture/gather/everybody.hpp"

namespace cryo::capture {

// The members are described, and stand still.
void describe_sharing(const Members &members);

} // namespace cryo::capture
