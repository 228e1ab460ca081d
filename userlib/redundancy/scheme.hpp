// SPDX-License-Identifier: Apache-2.0
//
// How the nodes of a set keep what one of them could lose (docs/stores.md): `partner`, each has the
// next one's data as they are; `xor`, each has parity of the others' data; `rs:M`, any M nodes may
// be lost.
//
//     Result<Scheme> scheme = parse_scheme("rs:2");
//     Result<void> possible = check_loss(*scheme, names, lost);
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::redundancy {

enum class Kind : uint8_t { partner, parity, reed_solomon };

struct Scheme {
    Kind kind = Kind::parity;
    uint32_t losses = 1; // how many nodes of a set may be lost, whichever they are

    bool operator==(const Scheme &) const = default;
};

constexpr uint32_t most_members = 64;

// EINVAL: there is no such scheme. `rs:1` is what `xor` does, and becomes that.
Result<Scheme> parse_scheme(std::string_view text);
std::string text_of(const Scheme &scheme);

uint32_t fewest_members(const Scheme &scheme);

// Whether the data of the lost members can be made from what the others have. The error names them.
Result<void> check_loss(const Scheme &scheme, const std::vector<std::string> &members,
                        const std::vector<bool> &lost);

} // namespace cryo::redundancy
