// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/everybody.hpp"

#include "look/together.hpp"

#include <algorithm>
#include <atomic>

namespace cryo::capture {

// A member stopped by a signal is ptraced by this thread, so no other thread can work on it.
Result<void> for_all(const Members &members, const std::function<Result<void>(Member &)> &work)
{
    Result<void> done = together(members.size(), [&](size_t i) {
        return members[i]->process().is_stopped() ? Result<void>() : work(*members[i]);
    });
    for (size_t i = 0; done && i < members.size(); i++) {
        if (members[i]->process().is_stopped())
            done = work(*members[i]);
    }
    return done;
}

bool have_callbacks(const Members &members)
{
    return std::ranges::any_of(members, [](const auto &m) { return m->process().has_callbacks(); });
}

bool can_be_copied(const Members &members)
{
    return std::none_of(members.begin(), members.end(), [&](const auto &m) {
        return m->freezing().cannot_be_copied() ||
               (m != members.front() && m->freezing().has_unforkable());
    });
}

Result<bool> freeze_all(const Members &members, Snapshot wanted, bool alone, int device)
{
    std::atomic<bool> read = false;
    Result<void> done = for_all(members, [&](Member &member) -> Result<void> {
        return member.freezing().begin(wanted, alone, device);
    });
    if (!done)
        return done.error();
    done = for_all(members, [&](Member &member) -> Result<void> {
        const Result<Method> how = member.freezing().await(wanted);
        if (!how)
            return how.error();
        if (*how == Method::stop)
            read = true;
        return {};
    });
    if (!done)
        return done.error();
    for (const auto &member : members) {
        if (read)
            member->freezing().thaw();
    }
    return !read;
}

uint64_t memory_of(pid_t pid)
{
    uint64_t bytes = 0;
    Result<std::string> status = Proc(pid).read("status");
    for (const char *name : {"RssAnon", "RssShmem", "VmSwap"}) {
        std::string_view kib = status ? field(*status, name) : std::string_view();
        bytes += take_number(kib) * 1024;
    }
    return bytes;
}

uint64_t memory_of(const Members &members)
{
    uint64_t bytes = 0;
    for (const auto &member : members)
        bytes += memory_of(member->relation().pid);
    return bytes;
}

// So little is read as fast packed, and most of its pages have only a few words.
image::Packing packing_for(const CheckpointOptions &options, pid_t pid)
{
    constexpr uint64_t small = 1 << 20;
    return options.pack_small && options.device < 0 && memory_of(pid) <= small
               ? image::Packing::automatic
               : options.packing;
}

} // namespace cryo::capture
