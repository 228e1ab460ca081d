// SPDX-License-Identifier: Apache-2.0
#include "look/members.hpp"

#include "base/clock.hpp"
#include "look/proc.hpp"
#include "look/together.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

constexpr uint64_t ns_per_second = 1'000'000'000;

Result<std::vector<Relation>> everybody()
{
    Result<std::vector<int>> pids = Proc(getpid()).numbers("..");
    if (!pids)
        return pids.error();
    std::vector<Relation> all;
    for (const int pid : *pids) {
        Result<Relation> one = relation_of(pid);
        if (one)
            all.push_back(std::move(*one));
        else if (one.error().code() != ESRCH && one.error().code() != EPERM)
            return one.error();
    }
    return all;
}

} // namespace

// The kernel may omit one from a list when another just listed one ends, so it is asked until two
// answers agree.
Result<std::set<pid_t>> children_of(pid_t pid)
{
    const Proc proc(pid);
    std::optional<std::set<pid_t>> last;
    for (;;) {
        Result<std::vector<int>> threads = proc.numbers("task");
        if (!threads)
            return threads.error();
        std::set<pid_t> now;
        for (const int tid : *threads) {
            Result<std::string> list = proc.read(fmt::format("task/{}/children", tid));
            if (!list && list.error().code() != ESRCH)
                return list.error();
            for (std::string_view rest = list ? std::string_view(*list) : ""; !rest.empty();)
                now.insert(static_cast<pid_t>(take_number(rest)));
        }
        if (last == now)
            return now;
        last = std::move(now);
    }
}

namespace {

// A process and its children, as far as they must be followed; empty if it has ended.
struct Family {
    std::optional<Relation> parent;
    std::set<pid_t> children;
};

Result<Family> family_of(pid_t pid)
{
    Result<Relation> parent = relation_of(pid);
    if (!parent && parent.error().code() == ESRCH)
        return Family();
    if (!parent)
        return parent.error();
    Family found{std::move(*parent), {}};
    if (found.parent->zombie || pid == getpid())
        return found;
    Result<std::set<pid_t>> children = children_of(pid);
    if (children)
        found.children = std::move(*children);
    else if (access(Proc(pid).path("stat").c_str(), F_OK) == 0)
        return Error(ENOSYS, "the kernel does not tell who the children of a process are");
    return found;
}

// A process and its descendants, and perhaps more. If the kernel lists a process's children, not
// all processes need be looked at. This also runs in the stop: each generation is looked at in
// parallel.
Result<std::vector<Relation>> everybody_from(pid_t root)
{
    std::vector<Relation> all;
    std::vector<pid_t> generation = {root};
    std::set<pid_t> seen = {root}; // a process reparented meanwhile is listed twice
    while (!generation.empty()) {
        std::vector<Family> families(generation.size());
        const Result<void> found = together(generation.size(), [&](size_t i) -> Result<void> {
            Result<Family> family = family_of(generation[i]);
            if (!family)
                return family.error();
            families[i] = std::move(*family);
            return {};
        });
        if (!found && found.error().code() == ENOSYS)
            return everybody();
        if (!found)
            return found.error();
        generation.clear();
        for (Family &family : families) {
            if (family.parent)
                all.push_back(std::move(*family.parent));
            std::ranges::copy_if(family.children, std::back_inserter(generation),
                                 [&](pid_t child) { return seen.insert(child).second; });
        }
    }
    std::ranges::sort(all, {}, &Relation::pid);
    return all;
}

// Parents before their children, otherwise by pid; only what is reachable from a root.
class Forest
{
  public:
    explicit Forest(const std::vector<Relation> &all)
    {
        for (const Relation &one : all)
            children_[one.ppid].push_back(&one);
    }

    void take(const Relation &root)
    {
        order_.push_back(root);
        if (const auto found = children_.find(root.pid); found != children_.end()) {
            for (const Relation *child : found->second) {
                if (child->pid != getpid())
                    take(*child);
            }
        }
    }
    std::vector<Relation> order() && { return std::move(order_); }

  private:
    std::map<pid_t, std::vector<const Relation *>> children_;
    std::vector<Relation> order_;
};

} // namespace

bool runs_program(const Proc &proc, std::string_view name)
{
    const Result<std::string> exe = proc.link("exe");
    return exe && exe->ends_with(name);
}

bool is_being_restarted(const Proc &proc)
{
    const Result<Relation> now = relation_of(proc.pid());
    return now && runs_program(Proc(now->ppid), "/cr_restart");
}

bool was_begun_by(pid_t pid, pid_t ancestor, uint64_t since_ns)
{
    const uint64_t ago = now_ns() - since_ns;
    const uint64_t ticks_a_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
    const uint64_t since_boot = static_cast<uint64_t>(clock_ns(CLOCK_BOOTTIME)) - ago;
    const uint64_t since = since_boot / (ns_per_second / ticks_a_second);
    while (pid > 1) {
        const Result<Relation> one = relation_of(pid);
        if (!one)
            return false;
        if (one->ppid == ancestor)
            return one->started >= since;
        pid = one->ppid;
    }
    return false;
}

Result<Relation> relation_of(pid_t pid)
{
    Result<std::string> stat = Proc(pid).read("stat");
    if (!stat && kill(pid, 0) != 0 && errno == EPERM)
        return Error(EPERM,
                     fmt::format("process {} belongs to somebody else, and /proc hides it", pid));
    if (!stat && (stat.error().code() == ENOENT || stat.error().code() == ESRCH))
        return Error(ESRCH, fmt::format("no process {}", pid));
    if (!stat)
        return stat.error();
    const size_t open = stat->find('(');
    const size_t close = stat->rfind(')');
    if (open == std::string::npos || close == std::string::npos || stat->size() < close + 2)
        return Error(EIO, fmt::format("/proc/{}/stat cannot be understood", pid));
    Relation r;
    r.pid = pid;
    r.comm = stat->substr(open + 1, close - open - 1);
    std::string_view rest = *stat;
    rest.remove_prefix(close + 2);
    std::vector<std::string_view> words; // words[0] is field 3
    while (!rest.empty() && rest.front() != '\n')
        words.push_back(take_word(rest));
    constexpr size_t exit_code = 52 - 3;
    if (words.size() <= exit_code)
        return Error(EIO, fmt::format("/proc/{}/stat cannot be understood", pid));
    const auto number = [&](size_t field) {
        std::string_view word = words[field - 3];
        return take_number(word);
    };
    r.traced = words[0] == "t";
    r.stopped = words[0] == "T" || words[0] == "t";
    r.ppid = static_cast<pid_t>(number(4));
    r.pgid = static_cast<pid_t>(number(5));
    r.sid = static_cast<pid_t>(number(6));
    constexpr uint64_t io_worker = 0x10; // PF_IO_WORKER
    r.of_kernel = (number(9) & io_worker) != 0 && r.comm.starts_with("iou-");
    constexpr uint64_t forked_only = 0x40; // PF_FORKNOEXEC
    r.forked = (number(9) & forked_only) != 0;
    r.started = number(22);
    r.exit_signal = static_cast<int>(number(38));
    r.executing = number(50) == 0;
    r.wait_status = static_cast<int>(number(52));
    // A process whose main thread has ended before the others looks like a zombie too.
    r.ended = words[0] == "Z" || words[0] == "X";
    r.zombie = r.ended && number(20) <= 1;
    return r;
}

// The main thread may have ended before the others, or be the first of all being killed.
bool has_ended(pid_t pid)
{
    const auto is_gone = [](const Error &why) {
        return why.code() == ESRCH || why.code() == ENOENT;
    };
    const Proc proc(pid);
    const Result<std::vector<int>> threads = proc.numbers("task");
    if (!threads)
        return is_gone(threads.error());
    return std::ranges::all_of(*threads, [&](int thread) {
        const Result<std::string> maps = proc.read(fmt::format("task/{}/maps", thread));
        return maps ? maps->empty() : is_gone(maps.error());
    });
}

Result<std::vector<Relation>> members_of(Scope scope, pid_t id)
{
    if (scope == Scope::process) {
        Result<Relation> one = relation_of(id);
        if (!one)
            return one.error();
        return std::vector<Relation>{std::move(*one)};
    }
    Result<std::vector<Relation>> all = scope == Scope::tree ? everybody_from(id) : everybody();
    if (!all)
        return all.error();
    const pid_t self = getpid();
    if (scope == Scope::tree) {
        const auto root =
            std::find_if(all->begin(), all->end(), [&](const Relation &r) { return r.pid == id; });
        if (root == all->end())
            return Error(ESRCH, fmt::format("no process {}", id));
        Forest forest(*all);
        forest.take(*root);
        return std::move(forest).order();
    }
    std::vector<Relation> chosen;
    for (const Relation &r : *all) {
        if ((scope == Scope::group ? r.pgid : r.sid) == id && r.pid != self)
            chosen.push_back(r);
    }
    if (chosen.empty())
        return Error(ESRCH, fmt::format("no process is in the {} {}",
                                        scope == Scope::group ? "process group" : "session", id));
    Forest forest(chosen);
    for (const Relation &r : chosen) {
        const bool has_parent = std::any_of(chosen.begin(), chosen.end(),
                                            [&](const Relation &o) { return o.pid == r.ppid; });
        if (!has_parent)
            forest.take(r);
    }
    return std::move(forest).order();
}

} // namespace cryo::capture
