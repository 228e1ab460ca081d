// SPDX-License-Identifier: Apache-2.0
//
// How fmt writes a RemoteAddress: as the number.
#pragma once

#include "base/remote_address.hpp"

#include <cstdint>
#include <fmt/format.h>

template <>
struct fmt::formatter<cryo::RemoteAddress> : fmt::formatter<uint64_t> {
    template <class Context>
    auto format(cryo::RemoteAddress address, Context &context) const
    {
        return fmt::formatter<uint64_t>::format(address.number(), context);
    }
};
