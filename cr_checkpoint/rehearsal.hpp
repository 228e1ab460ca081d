// SPDX-License-Identifier: Apache-2.0
//
// Tries an image before it is committed: by cr_restart --rehearse, a
// command of its own, so that no failure of a restart affects this process.
//
//     capture.rehearse = [&](const std::string &place, const auto &alive) {
//         return rehearse(place, name, patience_s, teller, alive);
//     };
#pragma once

#include "base/result.hpp"

#include <functional>
#include <string>

// `place`: the path of the image; `name`: its final name, for messages. Fails when the rehearsal
// makes no progress for the limit. `teller`: the socket that answers questions about owners
// (base/owner_teller.hpp), or -1. `alive` is called on progress.
cryo::Result<void> rehearse(const std::string &place, const std::string &name, unsigned patience_s,
                            int teller, const std::function<void()> &alive);
