// SPDX-License-Identifier: Apache-2.0
#include "image/verify_needed.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::image {

Result<void> verify_needed(const Snapshot &snapshot)
{
    for (const SnapshotMember &member : snapshot.members()) {
        if (member.state != MemberState::saved)
            continue;
        const Result<std::unique_ptr<Image>> image = snapshot.open_member(member);
        const Result<std::vector<Image *>> chain =
            image ? (*image)->chain() : Result<std::vector<Image *>>(image.error());
        if (!chain)
            return chain.error();
        for (Image *one : *chain) {
            const std::vector<Finding> findings = one->verify(1);
            if (!findings.empty())
                return Error(EBADMSG, fmt::format("{}: {}", one->name(), findings.front().text));
        }
    }
    return {};
}

} // namespace cryo::image
