// SPDX-License-Identifier: Apache-2.0
#include "look/available_memory.hpp"

#include "base/contents.hpp"
#include "look/proc.hpp"

#include <string>
#include <string_view>

namespace cryo::capture {

std::optional<uint64_t> available_memory()
{
    const Result<std::string> info = contents("/proc/meminfo");
    std::string_view text = info ? field(*info, "MemAvailable") : std::string_view();
    return text.empty() ? std::nullopt : std::optional(take_number(text) * 1024);
}

} // namespace cryo::capture
