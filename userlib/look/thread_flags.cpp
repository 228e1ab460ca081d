// SPDX-License-Identifier: Apache-2.0
#include "look/thread_flags.hpp"

#include "look/proc.hpp"

#include <algorithm>

namespace cryo::capture {

bool is_io_flusher(std::string_view stat)
{
    constexpr uint64_t bits = 0x00080000 | 0x00100000; // PF_MEMALLOC_NOIO, PF_LOCAL_THROTTLE
    // The name, in which everything may be, is the second field.
    stat.remove_prefix(std::min(stat.rfind(')') + 1, stat.size()));
    constexpr int flags = 9;
    std::string_view rest = stat.substr(std::min(stat.find_first_not_of(' '), stat.size()));
    for (int skipped = 3; skipped < flags; skipped++)
        take_word(rest);
    return (take_number(rest) & bits) == bits;
}

} // namespace cryo::capture
