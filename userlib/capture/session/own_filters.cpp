// SPDX-License-Identifier: Apache-2.0
#include "capture/session/own_filters.hpp"

#include "base/clock.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/enterable.hpp"
#include "capture/tracing/seized_thread.hpp"
#include "capture/tracing/way_back.hpp"
#include "libcr.h"
#include "look/agent_calls.hpp"
#include "look/thread_filters.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <vector>

namespace cryo::capture {

namespace {

constexpr uint64_t limit_ns = 2'000'000'000; // for all threads of a process

std::string obstacle_of(const CallFilter &filter)
{
    if (may_ask_listener(filter.program()))
        return "has a seccomp filter that may ask another process (SECCOMP_RET_USER_NOTIF), which "
               "would have to listen again after a restart";
    const AgentCall *stopped = first_stopped(filter.program(), agent_calls());
    if (stopped == nullptr)
        stopped = first_stopped(filter.program(), calls_after_filters());
    if (stopped == nullptr)
        return {};
    return fmt::format("runs under a seccomp filter, of its own or one that cr_run has not found "
                       "harmless, which does not allow {}(2), as Cryo calls it in a program that "
                       "it saves",
                       stopped->name);
}

// A restart puts on one after the other, each under those before it.
std::string obstacle_of_order(std::span<const CallFilter> filters)
{
    for (size_t i = 0; i + 1 < filters.size(); i++)
        if (const AgentCall *stopped = first_stopped(filters[i].program(), calls_between_filters()))
            return fmt::format("has several seccomp filters of its own, of which one does not "
                               "allow {}(2), by which a restart puts on the next one",
                               stopped->name);
    return {};
}

// Memory that may be executed and not read: the agent makes it readable for a moment, and then
// gives it its protection back, which many filters forbid.
bool may_give_back(const CallFilter &filter, uint64_t protection)
{
    PartlyKnownCall call{SYS_mprotect};
    call.arguments[2] = protection;
    return possible_answers(filter.program(), call) == answer_allows;
}

bool may_read_code(const CallFilter &filter, const Proc &proc)
{
    const Result<std::string> maps = proc.read("maps");
    const auto has = [&](const char *part) {
        return maps && maps->find(part) != std::string::npos;
    };
    return (!has(" --xp ") || may_give_back(filter, PROT_EXEC)) &&
           (!has(" -wxp ") || may_give_back(filter, PROT_WRITE | PROT_EXEC));
}

PartlyKnownCall interrupted_call(const user_regs_struct &registers)
{
    return {
        static_cast<uint32_t>(registers.orig_rax),
        {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9}};
}

bool all_allow(std::span<const CallFilter> filters, const PartlyKnownCall &call)
{
    return std::ranges::all_of(filters, [&](const CallFilter &filter) {
        return possible_answers(filter.program(), call) == answer_allows;
    });
}

// A system call that the stop has interrupted is begun anew, and then it passes the filters once
// more. What was begun before they were put on may be forbidden since; and the kernel begins some
// calls anew by another one. Returns whether a signal of Cryo's may interrupt it, too.
Result<bool> mend_call(const SeizedThread &thread, std::span<const CallFilter> filters)
{
    Result<user_regs_struct> found = thread.registers();
    if (!found)
        return found.error();
    if (static_cast<long long>(found->orig_rax) < 0)
        return true;
    if (!all_allow(filters, interrupted_call(*found))) {
        if (is_begun_anew(*found)) {
            found->rax = static_cast<unsigned long long>(-EINTR);
            found->orig_rax = ~0ULL;
        }
        const Result<void> set = thread.set_registers(*found);
        return set ? Result<bool>(false) : set.error();
    }
    if (!is_begun_anew_by_call(*found) || all_allow(filters, {SYS_restart_syscall})) {
        const Result<void> hidden = thread.hide_stop();
        return hidden ? Result<bool>(true) : hidden.error();
    }
    begin_call_anew(*found);
    const Result<void> set = thread.set_registers(*found);
    return set ? Result<bool>(true) : set.error();
}

// One process. Threads mostly have the same filters, each of which is judged once.
class Judge
{
  public:
    explicit Judge(const Proc &proc)
        : proc_(proc), of_surroundings_(AgentDoor::filters_of(proc)),
          deadline_ns_(now_ns() + limit_ns)
    {}

    // Until there is no thread that was not judged: a new one has the filters of its creator.
    Result<void> judge_all()
    {
        for (;;) {
            Result<std::vector<int>> threads = proc_.numbers("task");
            if (!threads)
                return Error(ESRCH, fmt::format("no process {}", proc_.pid()));
            std::erase_if(*threads, [&](int tid) { return judged_threads_.contains(tid); });
            if (threads->empty())
                return {};
            for (const int tid : *threads) {
                judged_threads_.insert(tid);
                const Result<std::string> status = proc_.read(fmt::format("task/{}/status", tid));
                if (!status || !filter_obstacle(proc_, *status))
                    continue;
                Result<void> judged = judge_thread(tid);
                if (!judged && judged.error().code() != ESRCH)
                    return judged;
            }
        }
    }

  private:
    Result<void> judge_thread(pid_t tid)
    {
        Result<SeizedThread> thread = SeizedThread::seize(proc_.pid(), tid, deadline_ns_);
        if (!thread)
            return thread.error();
        const Result<std::vector<CallFilter>> filters = read_filters(tid, of_surroundings_);
        if (!filters) {
            const Result<void> hidden = thread->hide_stop();
            return hidden ? filters.error() : hidden.error();
        }
        const Result<bool> goes_on = mend_call(*thread, *filters);
        if (!goes_on)
            return goes_on.error();
        thread->let_go();
        if (!*goes_on)
            return refuse(fmt::format("runs under a seccomp filter that forbids, by now, the "
                                      "system call in which thread {} waits",
                                      tid),
                          "try again when that is over");
        for (const CallFilter &filter : *filters) {
            if (Result<void> good = judge_filter(filter); !good)
                return good;
        }
        const std::string why = obstacle_of_order(*filters);
        return why.empty() ? Result<void>() : refuse(why, way_out_of_filters);
    }

    Result<void> judge_filter(const CallFilter &filter)
    {
        const auto is_same = [&](const std::vector<sock_filter> &code) {
            return std::ranges::equal(code, filter.code, [](const auto &a, const auto &b) {
                return a.code == b.code && a.jt == b.jt && a.jf == b.jf && a.k == b.k;
            });
        };
        if (std::ranges::any_of(good_, is_same))
            return {};
        std::string why = obstacle_of(filter);
        if (why.empty() && !may_read_code(filter, proc_))
            why = "runs under a seccomp filter that does not allow mprotect(2), as Cryo calls it "
                  "for memory that may be executed and not read";
        if (!why.empty())
            return refuse(why, way_out_of_filters);
        good_.push_back(filter.code);
        return {};
    }

    Error refuse(const std::string &why, const std::string &way_out) const
    {
        return {ENOTSUP, fmt::format("process {} {}: {}", proc_.pid(), why, way_out)};
    }

    const Proc &proc_;
    unsigned of_surroundings_;
    uint64_t deadline_ns_;
    std::set<int> judged_threads_;
    std::vector<std::vector<sock_filter>> good_;
};

bool has_own_filters(const Proc &proc)
{
    const Result<std::vector<int>> threads = proc.numbers("task");
    return threads && std::ranges::any_of(*threads, [&](int tid) {
               const Result<std::string> status = proc.read(fmt::format("task/{}/status", tid));
               return status && filter_obstacle(proc, *status);
           });
}

} // namespace

std::string filters_obstacle(std::span<const CallFilter> filters)
{
    for (const CallFilter &filter : filters) {
        if (std::string why = obstacle_of(filter); !why.empty())
            return why;
    }
    return obstacle_of_order(filters);
}

Result<void> judge_filters(const Proc &proc)
{
    if (!has_own_filters(proc))
        return {};
    if (Result<void> readable = check_filters(proc, true); !readable)
        return readable;
    const Result<std::string> status = proc.read("status");
    std::string_view tracer = status ? field(*status, "TracerPid") : std::string_view();
    if (const uint64_t by = take_number(tracer); by != 0)
        return Error(CR_EPTRACED, fmt::format("process {} has a seccomp filter of its own, and is "
                                              "traced by process {}, so that Cryo cannot read it: "
                                              "detach that first",
                                              proc.pid(), by));
    return Judge(proc).judge_all();
}

} // namespace cryo::capture
