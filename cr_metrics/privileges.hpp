// SPDX-License-Identifier: Apache-2.0
//
// What was opened with a privilege stays open; nothing else is opened with one after that.
#pragma once

#include "base/result.hpp"

namespace cryo {

// All capabilities, for good. Root then is a user like others, whom root's files belong to.
Result<void> give_up_capabilities();

} // namespace cryo
