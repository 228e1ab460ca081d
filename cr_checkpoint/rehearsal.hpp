// SPDX-License-Identifier: Apache-2.0
//
// An image is tried before it counts: by cr_restart --rehearse, a command of its own, so that
// nothing of a restart can go wrong in here.
//
//     capture.rehearse = [&](const std::string &place, const auto &alive) {
//         return rehearse(place, name, patience_s, alive);
//     };
#pragma once

#include "base/result.hpp"

#include <functional>
#include <string>

// `place`: where the image is; `name`: what it is to be called, for messages. Given up when nothing
// happens for so long. `alive` is called as it gets on.
cryo::Result<void> rehearse(const std::string &place, const std::string &name, unsigned patience_s,
                            const std::function<void()> &alive);
