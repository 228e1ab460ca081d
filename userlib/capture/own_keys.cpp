// SPDX-License-Identifier: Apache-2.0
// Keys in keyrings that end with a process or thread. They are secrets, which the kernel may not
// give away, so they are not saved.
#include "capture/member.hpp"

#include <fmt/format.h>

namespace cryo::capture {

void note_own_keys(const std::vector<std::unique_ptr<Member>> &members,
                   std::vector<std::string> &notices)
{
    for (const auto &member : members) {
        const Description &d = member->description();
        if (d.has_own_keys)
            notices.push_back(fmt::format("process {} has keys in a process-keyring or "
                                          "thread-keyring: they are not saved, and a restarted "
                                          "process has to add them again",
                                          d.process.pid));
    }
}

} // namespace cryo::capture
