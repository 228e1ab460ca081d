// SPDX-License-Identifier: Apache-2.0
#include "base/close_others.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace cryo {

void close_others(const std::vector<int> &kept)
{
    unsigned from = 0;
    for (const int fd : kept) {
        const auto number = static_cast<unsigned>(fd);
        if (number > from)
            syscall(SYS_close_range, from, number - 1, 0U);
        from = number + 1;
    }
    syscall(SYS_close_range, from, ~0U, 0U);
}

} // namespace cryo
