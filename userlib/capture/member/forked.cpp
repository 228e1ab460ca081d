// SPDX-License-Identifier: Apache-2.0
#include "capture/member/forked.hpp"

#include "capture/member/member.hpp"
#include "image/format.hpp"

#include <set>

namespace cryo::capture {

namespace {

// A page that is left to a parent is looked for in the images of all generations before it.
constexpr uint32_t most_generations = 8;

} // namespace

ForkedMembers::ForkedMembers(const std::vector<std::unique_ptr<Member>> &members)
{
    std::set<pid_t> before; // whose images come earlier
    for (const auto &member : members) {
        const Relation &own = member->relation();
        if (own.forked && before.contains(own.ppid)) {
            parents_[own.pid] = own.ppid;
            forks_[own.ppid]++;
        }
        before.insert(own.pid);
    }
}

void ForkedMembers::begin(Member &member, image::WriterOptions &options)
{
    const pid_t pid = member.relation().pid;
    const auto parent = parents_.find(pid);
    auto base = parent != parents_.end() ? bases_.find(parent->second) : bases_.end();
    if (base != bases_.end() && base->second.images == most_generations)
        base = bases_.end();
    if (base != bases_.end()) {
        options.base = base->second.image;
        options.hints |= image::kHintOfFork;
        generations_[pid] = base->second.images;
    }
    if (forks_[pid] > 0)
        member.memory().use_delta(base != bases_.end() ? &base->second : nullptr, Digests::kept);
    else if (base != bases_.end())
        member.memory().use_delta(&base->second, Digests::dropped);
}

void ForkedMembers::end(Member &member, const image::Committed &done)
{
    const pid_t pid = member.relation().pid;
    const auto parent = parents_.find(pid);
    if (parent != parents_.end() && --forks_[parent->second] == 0)
        bases_.erase(parent->second); // its pages have digests that nobody needs any more
    if (forks_[pid] == 0)
        return;
    DeltaPlan::Base base;
    base.images = generations_[pid] + 1;
    base.image = {done.id, done.checksum};
    base.previous = done.id;
    base.pages = std::make_shared<const PageTable>(member.memory().take_pages());
    base.previous_pages = base.pages;
    bases_.emplace(pid, std::move(base));
}

} // namespace cryo::capture
