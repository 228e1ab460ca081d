// SPDX-License-Identifier: Apache-2.0
//
// Queries all members while they are stopped, and collects everything that cannot be saved.
//
//     Obstacles obstacles;
//     if (Result<void> described = describe_everybody(gathering, common, obstacles); !described)
//         ... it may pass: obstacles.may_pass ...
#pragma once

#include "capture/gather/gathering.hpp"
#include "capture/gather/tries.hpp"

namespace cryo::capture {

Result<void> describe_everybody(Gathering &gathering, Common &common, Obstacles &obstacles);

} // namespace cryo::capture
