// SPDX-License-Identifier: Apache-2.0
#include "resources/differences.hpp"

#include "look/proc.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::resources {

Error difference(const std::string &what)
{
    return {ENOTRECOVERABLE, what};
}

Result<void> same_text(const std::string &what, std::string_view now, std::string_view saved)
{
    if (now == saved)
        return {};
    return difference(fmt::format("{} is {}, and {} in the image", what, now, saved));
}

Result<void> same_hex(const std::string &what, uint64_t now, uint64_t saved)
{
    return same_text(what, fmt::format("{:x}", now), fmt::format("{:x}", saved));
}

Result<void> same_number(const std::string &what, int64_t now, int64_t saved)
{
    return same_text(what, std::to_string(now), std::to_string(saved));
}

Result<void> same_line(const std::string &what, std::string_view text, const char *key, int base,
                       uint64_t saved)
{
    std::string_view now = capture::field(text, key);
    return same_hex(fmt::format("{}: {}", what, key), capture::take_number(now, base), saved);
}

} // namespace cryo::resources
