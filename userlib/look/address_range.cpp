// SPDX-License-Identifier: Apache-2.0
#include "look/address_range.hpp"

#include "look/proc.hpp"

namespace cryo::capture {

std::optional<Run> take_range(std::string_view &line)
{
    const uint64_t start = take_number(line, 16);
    if (!line.starts_with('-'))
        return std::nullopt;
    line.remove_prefix(1);
    return Run{start, take_number(line, 16)};
}

} // namespace cryo::capture
