// SPDX-License-Identifier: Apache-2.0
#include "survey/programs.hpp"

#include "capture/session/agent_connection.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/enterable.hpp"
#include "capture/session/open_door.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"
#include "survey/words.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::survey {

namespace {

using capture::Proc;
using recover::Seen;

std::optional<uid_t> owner_of(pid_t pid)
{
    struct stat status = {};
    return stat(Proc(pid).path("").c_str(), &status) == 0 ? std::optional(status.st_uid)
                                                          : std::nullopt;
}

bool all_threads_block(const Proc &proc, int signal)
{
    const Result<std::vector<int>> threads = proc.numbers("task");
    bool any = false;
    for (const int tid : threads ? *threads : std::vector<int>()) {
        const Result<std::string> status = proc.read(fmt::format("task/{}/status", tid));
        if (!status)
            continue; // it has ended
        std::string_view blocked = capture::field(*status, "SigBlk");
        if ((capture::take_number(blocked, 16) >> (signal - 1) & 1) == 0)
            return false;
        any = true;
    }
    return any;
}

Running of_supervised(const Seen &seen)
{
    Running one = {.said = seen.said, .state = name_of(seen.standing), .owner = seen.owner};
    const bool here = seen.standing != recover::Standing::elsewhere;
    if (!here) // the numbers are those of others in this pid namespace
        one.said.supervisor = one.said.program = one.said.own_pid = 0;
    else if (recover::started(seen.said.program) != 0)
        one.obstacle = obstacle_of(seen.said.program);
    return one;
}

Running of_process(pid_t pid)
{
    Running one = {.said = recover::from_here(), .owner = owner_of(pid).value_or(0)};
    one.said.program = one.said.own_pid = pid;
    one.said.program_started = recover::started(pid);
    one.said.kept = false;
    const Result<std::string> words = Proc(pid).read("cmdline");
    one.said.command = words_of(words ? *words : "");
    return one;
}

// Spares a look at each descriptor of each process on the machine. An agent catches a real-time
// signal, unless its user has chosen another one for cr_run.
bool may_have_agent(const Proc &proc)
{
    constexpr int first_of_programs = 34; // those before are the C library's own
    const Result<std::string> status = proc.read("status");
    std::string_view caught = status ? capture::field(*status, "SigCgt") : "";
    return (capture::take_number(caught, 16) >> (first_of_programs - 1)) != 0 ||
           capture::was_run_by_cr_run(proc);
}

// All of a tree are saved together.
void add_obstacles(const std::vector<pid_t> &members, Running &one)
{
    for (size_t i = 0; i < members.size() && one.obstacle->empty(); i++)
        one.obstacle = obstacle_of(members[i]);
}

// Processes that run under cr_run: each first one of a tree, with those below it.
std::map<pid_t, std::vector<pid_t>> trees(const std::vector<pid_t> &processes,
                                          const std::set<pid_t> &tops)
{
    std::map<pid_t, pid_t> parents;
    std::set<pid_t> entered;
    for (const pid_t pid : processes) {
        const Result<capture::Relation> now = capture::relation_of(pid);
        if (!now || now->zombie)
            continue;
        parents[pid] = now->ppid;
        if (pid != getpid() && may_have_agent(Proc(pid)) && capture::has_open_door(Proc(pid)))
            entered.insert(pid);
    }
    std::map<pid_t, std::vector<pid_t>> all;
    for (const pid_t pid : entered) {
        pid_t first = pid;
        std::set<pid_t> passed; // numbers may come back while the table is read
        for (pid_t at = pid; parents.contains(at) && passed.insert(at).second; at = parents[at]) {
            if (entered.contains(at) || tops.contains(at))
                first = at;
            if (tops.contains(at))
                break;
        }
        all[first].push_back(pid);
    }
    return all;
}

} // namespace

bool Running::is_amiss() const
{
    const auto is = [this](recover::Standing standing) { return state == name_of(standing); };
    using enum recover::Standing;
    return is(unsaved) || is(unsupervised) || is(ended) || is(elsewhere);
}

std::string obstacle_of(pid_t pid)
{
    if (const Result<void> runs = capture::check_running(pid); !runs)
        return runs.error().text();
    const Proc proc(pid);
    if (const Result<void> open = capture::check_open_door(proc); !open)
        return open.error().text();
    if (all_threads_block(proc, capture::AgentDoor::signal_of(proc)))
        return capture::AgentDoor::silent(proc).text();
    return {};
}

std::vector<pid_t> own_processes()
{
    std::vector<pid_t> all;
    const Result<std::vector<int>> pids = Proc(getpid()).numbers("..");
    for (const int pid : pids ? *pids : std::vector<int>()) {
        const std::optional<uid_t> owner = owner_of(pid);
        if (owner && (*owner == geteuid() || geteuid() == 0))
            all.push_back(pid);
    }
    return all;
}

// Another user's image is left to its user: root would open it for anybody.
void Survey::look_at_last(Running &one)
{
    if (one.job || one.said.checkpoint.empty() || one.owner != geteuid())
        return;
    Stored &known = images_[one.said.checkpoint];
    if (known.name.empty()) {
        if (Result<Stored> found = look_at_image(one.said.checkpoint))
            known = std::move(*found);
    }
    one.stopped_ns = known.stopped_ns;
    one.bytes = known.bytes;
}

std::vector<Running> Survey::look()
{
    std::vector<Running> all;
    std::set<pid_t> tops;
    for (const Seen &seen : recover::look_around()) {
        all.push_back(of_supervised(seen));
        if (all.back().obstacle)
            tops.insert(seen.said.program);
    }
    std::vector<pid_t> ranks;
    std::vector<Running> jobs = look_at_jobs(all, ranks);
    const std::set<pid_t> of_jobs(ranks.begin(), ranks.end());
    std::erase_if(all, [&](const Running &one) {
        return std::ranges::any_of(jobs, [&](const Running &job) {
            return job.said.program == one.said.program && one.obstacle;
        });
    });
    for (const auto &tree : trees(own_processes(), tops)) {
        const pid_t first = tree.first; // clang 14 takes no binding into a lambda
        const auto &members = tree.second;
        const auto known = std::ranges::find_if(
            all, [&](const Running &one) { return one.said.program == first && one.obstacle; });
        if (known != all.end()) {
            known->processes = members.size();
            add_obstacles(members, *known);
            continue;
        }
        if (std::ranges::any_of(members, [&](pid_t pid) { return of_jobs.contains(pid); }))
            continue;
        Running one = of_process(first);
        one.processes = members.size();
        one.obstacle = "";
        add_obstacles(members, one);
        one.state = one.obstacle->empty() ? "ready" : "unready";
        all.push_back(std::move(one));
    }
    std::ranges::move(jobs, std::back_inserter(all));
    for (Running &one : all)
        look_at_last(one);
    std::erase_if(images_, [&](const auto &image) {
        return std::ranges::none_of(
            all, [&](const Running &one) { return one.said.checkpoint == image.first; });
    });
    return all;
}

} // namespace cryo::survey
