// SPDX-License-Identifier: Apache-2.0
//
// How far a rank is with a checkpoint.
#pragma once

#include <cstdint>

namespace cryo::bookmark {

enum class Phase : uint8_t {
    idle,     // no checkpoint
    asked,    // a checkpoint is requested: the rank runs on, or has stopped and is ready
    cut,      // all ranks have stopped: this one drains
    drained,  // nothing is in flight to or from this rank: the image may be taken
    saved,    // waits for the other ranks
    resuming, // must repost its receives
};

} // namespace cryo::bookmark
