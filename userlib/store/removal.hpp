// SPDX-License-Identifier: Apache-2.0
//
// Takes what a place has out of a store, complete or not.
//
//     Result<Removed> removed = remove_place(place, settings, terms);
#pragma once

#include "base/result.hpp"
#include "store/client.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::store {

struct Removed {
    size_t objects = 0; // besides the manifest
    uint64_t bytes = 0;
};

// ENOENT: there is nothing. EBUSY: another one pushes to it or removes it. Nothing of its own is
// left there when it returns.
Result<Removed> remove_place(const Location &place, const Settings &settings, const Terms &terms);

} // namespace cryo::store
