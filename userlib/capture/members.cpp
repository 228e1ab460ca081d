// SPDX-License-Identifier: Apache-2.0
#include "capture/members.hpp"

#include "capture/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <unistd.h>

namespace cryo::capture {

namespace {

using image::Scope;

Result<std::vector<Relation>> everybody()
{
    Result<std::vector<int>> pids = Proc(getpid()).numbers("..");
    if (!pids)
        return pids.error();
    std::vector<Relation> all;
    for (const int pid : *pids) {
        if (Result<Relation> one = relation_of(pid); one)
            all.push_back(std::move(*one));
    }
    return all;
}

// Parents before their children, otherwise by number; what is not reached from a root is left out.
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

Result<Relation> relation_of(pid_t pid)
{
    Result<std::string> stat = Proc(pid).read("stat");
    if (!stat)
        return Error(ESRCH, fmt::format("no process {}", pid));
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
    r.started = number(22);
    r.exit_signal = static_cast<int>(number(38));
    r.executing = number(50) == 0;
    r.wait_status = static_cast<int>(number(52));
    // A process whose main thread has ended before the others looks like a zombie too.
    r.ended = words[0] == "Z" || words[0] == "X";
    r.zombie = r.ended && number(20) <= 1;
    return r;
}

Result<std::vector<Relation>> members_of(Scope scope, pid_t id)
{
    if (scope == Scope::process) {
        Result<Relation> one = relation_of(id);
        if (!one)
            return one.error();
        return std::vector<Relation>{std::move(*one)};
    }
    Result<std::vector<Relation>> all = everybody();
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
