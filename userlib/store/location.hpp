// SPDX-License-Identifier: Apache-2.0
//
// Places in object stores, as users write them.
//
//     Result<Location> place = Location::parse("s3://checkpoints/run7/context.412");
//     place->bucket                        // "checkpoints"
//     place->within("cryo.json").key       // "run7/context.412/cryo.json"
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace cryo::store {

struct Location {
    std::string bucket = {};
    std::string key = {}; // without a slash at either end; "": the bucket itself

    // EINVAL: no such place can exist.
    static Result<Location> parse(std::string_view text);

    Location within(std::string_view name) const;
    std::string text() const;
    std::string path() const; // of its URL, encoded
};

// Encodes all but letters, digits and "-._~", as a signature needs it.
std::string encode(std::string_view text);

} // namespace cryo::store
