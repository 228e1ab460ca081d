// SPDX-License-Identifier: Apache-2.0
//
// All that is asked of all members while they stand still, and all that cannot be saved.
//
//     Obstacles obstacles;
//     if (Result<void> described = describe_everybody(gathering, common, obstacles); !described)
//         ... it may be another time: obstacles.may_pass ...
#pragma once

#include "capture/gathering.hpp"
#include "capture/tries.hpp"

namespace cryo::capture {

Result<void> describe_everybody(Gathering &gathering, Common &common, Obstacles &obstacles);

} // namespace cryo::capture
