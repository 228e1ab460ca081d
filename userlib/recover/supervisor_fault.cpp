// SPDX-License-Identifier: Apache-2.0
// What follows when the program has ended: whether it was a fault, what has to end before it can
// come back, and from what.
#include "base/clock.hpp"
#include "cli/text.hpp"
#include "recover/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

constexpr int pause_ms = 1000; // before a failed restart is tried again; doubled each time
constexpr unsigned most_doublings = 6;
constexpr int look_ms = 50;      // at a lock, of whose end nobody tells
constexpr int silence_ms = 5000; // until a wait is told

uint64_t ms_since(uint64_t begun_ns)
{
    return (now_ns() - begun_ns) / 1'000'000;
}

// Whether a program that begins again reads the same once more.
bool has_input_again(off_t began_at)
{
    struct stat input = {};
    if (fstat(STDIN_FILENO, &input) != 0 || S_ISCHR(input.st_mode))
        return true;
    return S_ISREG(input.st_mode) && began_at >= 0;
}

} // namespace

// Until a job's daemon has ended, or said what `is_enough`. As long as it completes a snapshot, it
// is waited for.
template <class Enough>
void Supervisor::await_daemon(const Enough &is_enough)
{
    const uint64_t begun = now_ns();
    for (bool told = false; report_.fd() >= 0 && !is_enough() && wishes_.end() == 0 &&
                            !news_.is_silent(begun, now_ns());
         await_change(pause_ms)) {
        if (!told && ms_since(begun) > 2 * silence_ms) { // ranks may take so long
            teller_.say("waits for the end of the job's first daemon");
            told = true;
        }
    }
}

// Whether a launcher has failed that did not end its ranks, or has lost what it had started, or
// whose ranks were lost before others ended the job for that. Its exit status need not tell.
bool Supervisor::has_left_others()
{
    if (!subject_->has_daemon() || *status_ == 0)
        return false;
    if (news_.has_run() && subject_->lost_control(*status_))
        return true;
    await_daemon([this] { return news_.knows_launchers_end(); });
    return news_.launcher_left_ranks() || (subject_->may_be_chosen(*status_) && news_.saw_fault());
}

// Whether a launcher has ended with 0 though ranks are missing.
bool Supervisor::is_unfinished()
{
    if (!subject_->has_daemon() || *status_ != 0 || !news_.has_run())
        return false;
    await_daemon([this] { return news_.knows_ends(); });
    return news_.is_unfinished();
}

// A process that was killed may end late: in a system call of a server that does not answer.
Result<void> Supervisor::end_leftovers()
{
    const uint64_t begun = now_ns();
    bool told = false;
    return leftovers_.end([&] {
        if (reap())
            return true;
        const int left =
            silence_ms - static_cast<int>(std::min<uint64_t>(ms_since(begun), silence_ms));
        if (!await_change(told ? -1 : left) && !told) {
            const Result<std::set<pid_t>> rest = leftovers_.all();
            if (rest && !rest->empty())
                teller_.say(fmt::format("waits for the end of process {}, which was killed",
                                        fmt::join(*rest, ", ")));
            told = true;
        }
        return wishes_.end() == 0;
    });
}

// After the end of a job's processes here: whether those of other nodes have ended, too.
Result<void> Supervisor::await_rest()
{
    if (!subject_->has_daemon())
        return {};
    await_daemon([] { return false; });
    const int64_t now = clock_ns(CLOCK_BOOTTIME);
    const Result<int64_t> gone =
        news_.when_gone(report_.has_ended() ? std::optional<int64_t>(now) : std::nullopt);
    if (!gone)
        return gone.error();
    return await_leases(*gone);
}

// A node that does not answer may act until its lease has ended. When the margin is over, too, its
// ranks are dead, wherever it is.
Result<void> Supervisor::await_leases(int64_t gone_ns)
{
    constexpr int64_t ms = 1'000'000;
    const int64_t begun = clock_ns(CLOCK_BOOTTIME);
    for (int64_t left; (left = gone_ns - clock_ns(CLOCK_BOOTTIME)) > 0 && wishes_.end() == 0;)
        pause(static_cast<int>(std::min<int64_t>(left / ms + 1, INT32_MAX)));
    if (gone_ns > clock_ns(CLOCK_BOOTTIME))
        return Error(EINTR, "the wait for the end of its ranks on other nodes was ended");
    // The launcher may have ended so late that there was nothing to wait for.
    const int64_t waited = gone_ns > begun ? clock_ns(CLOCK_BOOTTIME) - begun : 0;
    for (const LostNode &node : news_.lost()) {
        nodes_.lose(node.name);
        teller_.say(end_text(node, waited));
    }
    if (news_.lost().empty() && waited > 0)
        teller_.say(fmt::format("the job's daemon has ended before it was known what became of "
                                "other nodes; after {} their ranks are dead",
                                cli::duration_text(static_cast<uint64_t>(waited))));
    teller_.said().lost_nodes = nodes_.lost();
    teller_.said().spares = nodes_.spares_left();
    teller_.publish();
    return {};
}

// How a launcher has ended that had lost a node before says nothing of the fault: it may have done
// what the supervisor has told it.
std::string Supervisor::fault_text(const End &end)
{
    std::string loss = news_.lost().empty() ? "" : loss_text(news_.lost());
    if (end.was_back && loss.empty())
        return subject_->end_text(teller_.said().own_pid, *status_) +
               (end.is_unfinished ? ", but not all ranks have come to their end" : "");
    if (end.was_back)
        return loss;
    return fmt::format("the restart from {} failed ({})", image_,
                       loss.empty() ? end_text(end.wait_status) : loss);
}

void Supervisor::tell_fault(const End &end)
{
    fault_ns_ = was_back_ ? clock_ns(CLOCK_REALTIME) : fault_ns_;
    teller_.said().faults++;
    teller_.said().last_fault = fault_text(end);
    teller_.say(fmt::format("{}: {}", task_.words.front(), teller_.said().last_fault));
    teller_.note_program(0, teller_.said().own_pid);
}

// Until then, or until the user ends the program.
void Supervisor::pause(int ms)
{
    const uint64_t begun = now_ns();
    for (uint64_t past; wishes_.end() == 0 && (past = ms_since(begun)) < static_cast<uint64_t>(ms);)
        await_change(ms - static_cast<int>(past));
}

// An image that is completed later would be newer than the one from which the program comes back,
// and of a course that it has left. So as long as a keeper of ours holds the lock, or has left a
// command that may complete one, this waits, however long it takes.
Result<std::unique_ptr<Past>> Supervisor::take_past()
{
    const uint64_t begun = now_ns();
    for (bool told = false;;) {
        Result<std::unique_ptr<Past>> past = subject_->past(0);
        const bool is_held = !past && past.error().code() == EBUSY;
        const Result<std::set<pid_t>> savers = leftovers_.savers(is_held);
        if (!savers)
            return savers.error();
        if (savers->empty() || (!past && !is_held))
            return past;
        if (wishes_.end() != 0)
            return Error(EINTR, "the wait for its last image was ended");
        for (const pid_t pid : *savers)
            kill(pid, SIGCONT); // one that was stopped with the program would never end
        if (!told && ms_since(begun) > silence_ms) {
            teller_.say(fmt::format("waits for process {}, which may still complete an image in {}",
                                    fmt::join(*savers, ", "), task_.keeping.directory));
            told = true;
        }
        past = Error(EAGAIN, ""); // gives the lock back
        pause(look_ms);
    }
}

Action Supervisor::judge()
{
    if (launcher_end_.was_told() && *status_ == 0) // MPICH's ends so; nothing has ended well
        *status_ = SIGKILL;                        // as the ranks that were lost
    const int status = subject_->end_of(*status_);
    const bool asked = (WIFSIGNALED(status) && wishes_.had(WTERMSIG(status))) || wishes_.end() != 0;
    if (was_back_ || *status_ == 0) // else it is not the program's
        program_status_ = *status_;
    else if (asked)
        program_status_ = wishes_.end() != 0 ? wishes_.end() : *status_;
    End end = {.wait_status = status,
               .launcher = *status_,
               .was_back = was_back_,
               .may_pass = !was_back_ && subject_->may_pass(*status_),
               .was_asked = asked,
               .can_begin_again = has_input_again(input_at_)};
    if (!decision_.is_fault(end)) {
        end.is_unfinished = is_unfinished();
        end.left_others = has_left_others();
    }
    if (!decision_.is_fault(end))
        return {.what = Do::end};
    if (end.is_unfinished)
        program_status_ = SIGKILL; // nothing has ended well
    tell_fault(end);
    const auto stop = [](const Error &error) {
        return Action{.what = Do::give_up, .why = error.text()};
    };
    if (Result<void> done = end_leftovers(); !done)
        return stop(done.error());
    if (Result<void> done = await_rest(); !done)
        return stop(done.error());
    if (!was_back_) {
        if (news_.has_begun() && news_.lost().empty()) // else that was the cause
            nodes_.failed();
        pause(pause_ms << std::min(in_vain_++, most_doublings));
    }
    Result<std::unique_ptr<Past>> past = take_past();
    if (!past)
        return stop(past.error());
    Action next = decision_.after(end, (*past)->offer());
    if (next.what == Do::begin_again && nodes_.any_lost())
        return {.what = Do::give_up,
                .why = fmt::format("there is no image yet; start it again without node {}",
                                   fmt::join(nodes_.lost(), ", "))};
    for (const std::string &name : next.abandoned) {
        teller_.say(fmt::format("it has come no further than {}, which is abandoned",
                                subject_->path_of(name)));
        if (Result<void> done = (*past)->abandon(name); !done)
            return stop(done.error());
    }
    if (next.what == Do::restart) {
        Result<std::vector<std::string>> hosts = subject_->hosts_for(next.image, nodes_);
        if (!hosts)
            return stop(hosts.error());
        hosts_ = std::move(*hosts);
        if (!nodes_.told().empty())
            teller_.say(nodes_.told());
        teller_.said().spares = nodes_.spares_left();
    }
    take_signals();
    return next;
}

} // namespace cryo::recover
