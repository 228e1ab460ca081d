// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/bystanders.hpp"

#include "capture/session/enterable.hpp"
#include "libcr.h"
#include "look/proc.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// Follows the user's choice: the last of the options counts. Under cr_run a cr_restart can be saved
// itself.
bool wants_to_be_left_out(const Proc &proc)
{
    Result<std::string> words = proc.read("cmdline");
    const bool maybe = !was_run_by_cr_run(proc);
    bool left_out = maybe;
    for (size_t at = 0; words && at < words->size();) {
        const std::string word = words->c_str() + at;
        at += word.size() + 1;
        if (word == "--omit-always")
            left_out = true;
        else if (word == "--omit-never")
            left_out = false;
        else if (word == "--omit-maybe")
            left_out = maybe;
    }
    return left_out;
}

// True only for one of Cryo's own commands: the name that a process gives itself does not count.
bool executes(const Proc &proc, std::string_view command)
{
    Result<std::string> exe = proc.link("exe");
    return exe && exe->substr(exe->rfind('/') + 1) == command;
}

// A child of cr_restart that is about to become a restored process. (The first process of a pid
// namespace of its own is a cr_restart that remains one.)
bool will_be_restarted(const Relation &relation)
{
    const Result<std::string> own = Proc(relation.pid).link("ns/pid");
    const Result<std::string> of_parent = Proc(relation.ppid).link("ns/pid");
    return own && of_parent && *own == *of_parent && is_being_restarted(Proc(relation.pid));
}

// A cr_restart that restores processes and is not to be saved itself.
bool is_restart(const Relation &relation)
{
    const Proc proc(relation.pid);
    return relation.comm == "cr_restart" && executes(proc, "cr_restart") &&
           wants_to_be_left_out(proc) && !will_be_restarted(relation);
}

// Whether a cr_restart has brought it back in a pid namespace (--pidns) that is not ours: its ids
// are known in there only, which cr_checkpoint enters if it is given one of them.
bool is_in_namespace_of_restart(const Relation &relation)
{
    const Result<std::string> own = Proc(relation.pid).link("ns/pid");
    const Result<std::string> ours = Proc(getpid()).link("ns/pid");
    return own && ours && *own != *ours && executes(Proc(relation.ppid), "cr_restart");
}

pid_t tracer_of(const Proc &proc)
{
    Result<std::string> status = proc.read("status");
    if (!status)
        return 0;
    std::string_view tracer = field(*status, "TracerPid");
    return static_cast<pid_t>(take_number(tracer));
}

} // namespace

// The kernel shows this only in the tracees, so all processes are looked at, once.
pid_t Bystanders::traced_by(pid_t tracer)
{
    if (!tracees_) {
        tracees_.emplace();
        Result<std::vector<int>> all = Proc(getpid()).numbers("..");
        for (const int pid : all ? *all : std::vector<int>()) {
            if (const pid_t by = tracer_of(Proc(pid)); by != 0)
                tracees_->emplace(by, pid);
        }
    }
    const auto found = tracees_->find(tracer);
    return found != tracees_->end() ? found->second : 0;
}

Result<std::string> Bystanders::why(const Relation &relation)
{
    const Proc proc(relation.pid);
    if (is_restart(relation))
        return fmt::format("process {} is a cr_restart, and is left out", relation.pid);
    // A cr_checkpoint serves another request, possibly made by one of the processes being saved.
    if (relation.comm == "cr_checkpoint" && executes(proc, "cr_checkpoint") &&
        !was_run_by_cr_run(proc))
        return fmt::format("process {} is a cr_checkpoint, and is left out", relation.pid);
    // A member that is stopped is held by us (stopped.hpp) when it is looked at once more.
    if (const pid_t tracer = tracer_of(proc);
        tracer != 0 && tracer != getpid() && options_.ptraced != Ptraced::allow) {
        if (options_.ptraced == Ptraced::error)
            return Error(CR_EPTRACED,
                         fmt::format("process {} is traced by process {}: detach it first, or "
                                     "--ptraced-allow, or --ptraced-skip leaves it out",
                                     relation.pid, tracer));
        return fmt::format("process {} is traced by process {}, and is left out", relation.pid,
                           tracer);
    }
    if (const pid_t tracee = traced_by(relation.pid); tracee != 0) {
        if (!options_.ptracer_skip)
            return Error(CR_EPTRACER,
                         fmt::format("process {} traces process {}: detach it first, or "
                                     "--ptracer-skip leaves it out",
                                     relation.pid, tracee));
        return fmt::format("process {} traces process {}, and is left out", relation.pid, tracee);
    }
    if (is_in_namespace_of_restart(relation))
        return Error(ENOTSUP, fmt::format("process {} is in the pid namespace that its cr_restart "
                                          "has made (--pidns): save it by its own id, {}",
                                          relation.pid, relation.pid));
    return std::string();
}

std::string Bystanders::instead_of(pid_t pid)
{
    Result<std::vector<Relation>> tree = members_of(image::Scope::tree, pid);
    if (!tree || !is_restart(tree->front()))
        return std::string();
    if (tree->size() > 1)
        return fmt::format("process {} is a cr_restart, which is left out; save process {}, which "
                           "it has brought back",
                           pid, (*tree)[1].pid);
    return fmt::format("process {} is a cr_restart that has not brought back anybody yet: it may "
                       "be waiting for an id or an address that is still in use; try again when "
                       "the program runs",
                       pid);
}

} // namespace cryo::capture
