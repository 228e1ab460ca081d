// SPDX-License-Identifier: Apache-2.0
#include "restore/kept_ids.hpp"

#include "look/former_holders.hpp"
#include "restore/choosing_ids.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <iterator>
#include <set>

namespace cryo::restore {

namespace {

// The group of a leader that has ended is an id, too: another process stands in for the leader.
std::set<uint32_t> ids_in(const TreeMembers &all)
{
    std::set<uint32_t> ids;
    for (const auto &one : all) {
        ids.insert(one->member->pid);
        if (one != all.front() && one->member->pgid != all.front()->member->pgid)
            ids.insert(one->member->pgid);
        for (const image::Thread &thread : one->saved.threads())
            ids.insert(thread.tid);
    }
    ids.erase(0);
    return ids;
}

// A group outlives its leader, and keeps its id from all processes.
bool names_group(pid_t id)
{
    return kill(-id, 0) == 0 || errno == EPERM;
}

std::vector<pid_t> not_free(const std::set<uint32_t> &ids)
{
    std::vector<pid_t> wished(ids.begin(), ids.end());
    std::vector<pid_t> taken = await_most_free(wished);
    std::ranges::copy_if(wished, std::back_inserter(taken), [&](pid_t id) {
        return std::ranges::find(taken, id) == taken.end() && names_group(id);
    });
    return taken;
}

} // namespace

std::string choose_kept_ids(const TreeMembers &all, RestartOptions &options)
{
    options.restore_pid = false;
    options.kept_ids.clear();
    // The module gives ids one at a time, for the whole machine. There, the many ranks of a job
    // that no other member knows do without.
    const bool is_slow = !may_choose_ids(false);
    if (is_slow && (all.size() == 1 || !may_choose_ids(options.device >= 0)))
        return "choosing ids needs a privilege here (CAP_CHECKPOINT_RESTORE, or the kernel module "
               "and membership in the group cryo)";
    std::set<uint32_t> ids = ids_in(all);
    const std::vector<pid_t> taken = not_free(ids);
    if (taken.empty()) {
        options.restore_pid = true;
        return {};
    }
    for (const pid_t id : taken)
        ids.erase(static_cast<uint32_t>(id));
    options.kept_ids = std::move(ids);
    return "the old ones are in use here";
}

std::optional<std::string> new_ids(const TreeMembers &all, const RestartOptions &options,
                                   const std::string &why)
{
    constexpr size_t most = 16; // of the names in a line
    std::string names;
    size_t count = 0;
    for (const auto &one : all) {
        if (options.keeps(one->member->pid))
            continue;
        if (count++ < most)
            names += fmt::format("{}{}", names.empty() ? "" : ", ", one->member->pid);
    }
    if (count == 0 || all.size() == 1)
        return std::nullopt;
    if (count > most)
        names += fmt::format(" and {} more", count - most);
    return fmt::format("{} {} new process id{}, because {}: waitpid() and kill() with an id that "
                       "the program has kept reach no process, or another one",
                       names, count == 1 ? "has a" : "have", count == 1 ? "" : "s", why);
}

bool is_about_ids(const Error &error)
{
    return error.code() == EBUSY || error.code() == EEXIST || is_about_choosing(error.code());
}

} // namespace cryo::restore
