// SPDX-License-Identifier: Apache-2.0
#include "recover/supervisor.hpp"

#include "base/clock.hpp"
#include "base/pipe.hpp"
#include "cli/command.hpp"
#include "cli/place.hpp"
#include "cli/text.hpp"
#include "keeper/launch.hpp"
#include "keeper/series.hpp"
#include "look/former_holders.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"
#include "parent/forward.hpp"
#include "protocol/agent.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

constexpr int not_begun = 125;
constexpr int pause_ms = 1000; // before a failed restart is tried again; doubled each time
constexpr unsigned most_doublings = 6;
constexpr int look_ms = 50;      // at a lock, of whose end nobody tells
constexpr int silence_ms = 5000; // until a wait is told

uint64_t ms_since(uint64_t begun_ns)
{
    return (now_ns() - begun_ns) / 1'000'000;
}

std::string seconds_text(int64_t ns)
{
    return cli::duration_text(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

} // namespace

Supervisor::Supervisor(Task task)
    : task_(std::move(task)), decision_(task_.policy), said_(from_here()),
      wishes_(Wishes::ignored())
{
    said_.supervisor = getpid();
    said_.supervisor_started = started(getpid());
    said_.command = fmt::format("{}", fmt::join(task_.words, " "));
    said_.directory = task_.keeping.directory;
}

// A restart cuts the program's files back, and standard error may be one of them: then nothing is
// written where it ended before.
void Supervisor::say(const std::string &text) const
{
    struct stat status = {};
    if (fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode))
        lseek(STDERR_FILENO, 0, SEEK_END);
    cli::say("cr_run", fmt::format("{:%H:%M:%S} {}", fmt::localtime(time(nullptr)), text));
}

void Supervisor::publish()
{
    if (!publisher_)
        return;
    if (const Result<void> done = publisher_->publish(said_); !done) {
        say("cr_status will not know of this program: " + done.error().text());
        publisher_.reset();
    }
}

void Supervisor::note_program(pid_t pid, pid_t own_pid)
{
    said_.program = pid;
    said_.own_pid = own_pid;
    said_.program_started = started(pid);
    publish();
}

Result<void> Supervisor::prepare()
{
    Result<Leftovers> leftovers = Leftovers::begin();
    if (!leftovers)
        return leftovers.error();
    leftovers_ = std::move(*leftovers);
    // The program's processes stay below this one when their parents have ended.
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return Error::from_errno("the supervisor cannot be a subreaper", errno);
    sigset_t all;
    sigemptyset(&all);
    for (int signal = 1; signal <= SIGRTMAX; signal++) {
        if (parent::is_passed_on(signal))
            sigaddset(&all, signal);
    }
    sigaddset(&all, SIGCHLD);
    signals_ = Fd(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    sigaddset(&all, SIGPIPE); // nobody may read our messages any more
    sigaddset(&all, SIGTTOU); // a terminal that stops those who write from behind does not stop us
    sigprocmask(SIG_BLOCK, &all, &before_);
    if (!signals_)
        return Error::from_errno("signalfd", errno);
    watch_ = Fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)); // without it only cr_status knows less
    if (watch_)
        inotify_add_watch(watch_.get(), task_.keeping.directory.c_str(),
                          IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
    struct stat input = {};
    if (fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode))
        input_at_ = lseek(STDIN_FILENO, 0, SEEK_CUR);
    Result<Publisher> publisher = Publisher::open();
    if (publisher)
        publisher_.emplace(std::move(*publisher));
    else
        say("cr_status will not know of this program: " + publisher.error().text());
    return {};
}

// Whether a program that begins again reads the same once more.
static bool has_input_again(off_t began_at)
{
    struct stat input = {};
    if (fstat(STDIN_FILENO, &input) != 0 || S_ISCHR(input.st_mode))
        return true;
    return S_ISREG(input.st_mode) && began_at >= 0;
}

Result<bool> Supervisor::begin()
{
    Result<PipeEnds> gate = make_pipe();
    if (!gate)
        return gate.error();
    if (input_at_ >= 0)
        lseek(STDIN_FILENO, input_at_, SEEK_SET);
    status_.reset();
    was_back_ = true;
    held_.clear(); // they were for one that knew them
    child_ = fork();
    if (child_ < 0)
        return Error::from_errno("fork", errno);
    if (child_ == 0) {
        sigprocmask(SIG_SETMASK, &before_, nullptr);
        gate->write.reset();
        char byte = 0;
        if (read(gate->read.get(), &byte, 1) != 1)
            _exit(not_begun); // no keeper could be started, or the supervisor was killed
        return true;
    }
    keeper::Settings keeping = task_.keeping;
    keeping.made_directory = false; // an empty directory is still needed after a fault
    const Result<pid_t> kept = keeper::launch(keeping, child_);
    if (!kept) {
        gate->write.reset();
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR)
            ;
        return kept.error();
    }
    note_keeper(*kept);
    note_program(child_, child_);
    const ssize_t opened = write(gate->write.get(), "", 1);
    static_cast<void>(opened); // if it was not, the child has been ended meanwhile
    return false;
}

Result<void> Supervisor::restart(const std::string &image)
{
    image_ = image;
    Result<Restart> begun =
        begin_restart(task_.keeping.directory + "/" + image, task_.keeping, before_);
    if (!begun)
        return begun.error();
    status_.reset();
    was_back_ = false;
    child_ = begun->pid;
    report_ = std::move(begun->report);
    return {};
}

// The terminal has sent its signals to the program itself, or to cr_restart, which knows whether
// they are for the program.
void Supervisor::take_signal(const signalfd_siginfo &info)
{
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD)
        return;
    const bool is_there = child_ > 0 && !status_;
    wishes_.sent(signal, is_there);
    if (info.ssi_code == SI_KERNEL)
        return;
    // A cr_restart that is still at work would be ended by it.
    if ((!was_back_ || !is_there) && !Wishes::asks(signal))
        held_.push_back(info);
    else if (is_there)
        send(info);
}

void Supervisor::send(const signalfd_siginfo &info) const
{
    sigval value = {};
    value.sival_ptr = reinterpret_cast<void *>(info.ssi_ptr); // NOLINT: as it was queued
    parent::pass_on(child_, static_cast<int>(info.ssi_signo), info.ssi_code, value);
}

void Supervisor::take_signals()
{
    signalfd_siginfo info = {};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info))
        take_signal(info);
}

// Orphans of the program, keepers, and the child that stands for the program. Whether there was
// one.
bool Supervisor::reap()
{
    bool any = false;
    int status = 0;
    int keeper_status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0; any = true) {
        leftovers_.waited_for(pid);
        if (pid == keeper_) {
            keeper_status = status;
            keeper_ = 0;
        }
        if (pid == child_ && !status_) // later, a child may have got its number
            status_ = status;
    }
    // A keeper that ends with its program, or was told to, ends with 0.
    if (keeper_status != 0 && child_ > 0 && !status_ && was_back_)
        tell_unsaved(keeper_status);
    return any;
}

void Supervisor::tell_unsaved(int wait_status)
{
    said_.kept = false;
    publish();
    say(fmt::format("{} is not saved any more: the process that makes its images {}",
                    task_.words.front(), end_text(wait_status)));
}

void Supervisor::note_keeper(pid_t pid)
{
    keeper_ = pid;
    said_.kept = pid != 0;
    if (pid != 0)
        leftovers_.add_keeper(pid);
}

void Supervisor::welcome(const std::optional<Return> &back)
{
    if (!back)
        return;
    was_back_ = true;
    in_vain_ = 0;
    said_.recoveries++;
    note_keeper(back->keeper);
    note_program(back->pid, back->own_pid);
    if (!status_)
        std::ranges::for_each(held_, [this](const signalfd_siginfo &info) { send(info); });
    held_.clear();
    const std::string known = back->own_pid != back->pid
                                  ? fmt::format("{} ({} here)", back->own_pid, back->pid)
                                  : std::to_string(back->pid);
    say(fmt::format("{}; process {} is back from {}/{} after {}: {} of its work is done again{}",
                    said_.last_fault, known, task_.keeping.directory, image_,
                    seconds_text(clock_ns(CLOCK_REALTIME) - fault_ns_),
                    seconds_text(fault_ns_ - back->saved_at_ns),
                    said_.kept ? "" : "; no more images are made"));
}

void Supervisor::look_at_images()
{
    alignas(inotify_event) char events[4096];
    while (read(watch_.get(), events, sizeof(events)) > 0) {
    }
    const keeper::Series series(task_.keeping.directory);
    const Result<std::string> newest = series.newest();
    struct stat status = {};
    if (!newest || newest->empty() || series.path(*newest) == said_.checkpoint ||
        lstat(series.path(*newest).c_str(), &status) != 0)
        return;
    wishes_.image_came();
    said_.checkpoint = series.path(*newest);
    said_.checkpoint_ns = status.st_mtim.tv_sec * int64_t(1'000'000'000) + status.st_mtim.tv_nsec;
    publish();
}

// False after `timeout_ms`; -1: however long it takes. A program that stands still is no fault, so
// no end is ever concluded from time.
bool Supervisor::await_change(int timeout_ms)
{
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {watch_ ? watch_.get() : -1, POLLIN, 0},
                      {report_ ? report_.get() : -1, POLLIN, 0}};
    const int got = poll(ready, std::size(ready), timeout_ms);
    if (got == 0)
        return false;
    if (got < 0)
        return true;
    if (ready[1].revents != 0)
        look_at_images();
    if (ready[2].revents != 0)
        welcome(take_report(report_));
    if (ready[0].revents != 0)
        take_signals();
    reap();
    return true;
}

void Supervisor::await_end()
{
    while (!status_)
        await_change(-1);
    // What the program was sent with its end, and what cr_restart has said before its own.
    take_signals();
    if (report_)
        welcome(take_report(report_));
    report_.reset();
    child_ = 0;
}

void Supervisor::tell_fault(const End &end)
{
    fault_ns_ = was_back_ ? clock_ns(CLOCK_REALTIME) : fault_ns_;
    said_.faults++;
    said_.last_fault =
        end.was_back
            ? fmt::format("process {} {}", said_.own_pid, end_text(end.wait_status))
            : fmt::format("the restart from {} failed ({})", image_, end_text(end.wait_status));
    say(fmt::format("{}: {}", task_.words.front(), said_.last_fault));
    note_program(0, said_.own_pid);
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
Result<Images> Supervisor::take_images()
{
    const uint64_t begun = now_ns();
    for (bool told = false;;) {
        Result<Images> images = Images::take(task_.keeping.directory, 0);
        const bool is_held = !images && images.error().code() == EBUSY;
        const Result<std::set<pid_t>> savers = leftovers_.savers(is_held);
        if (!savers)
            return savers.error();
        if (savers->empty() || (!images && !is_held))
            return images;
        if (wishes_.end() != 0)
            return Error(EINTR, "the wait for its last image was ended");
        for (const pid_t pid : *savers)
            kill(pid, SIGCONT); // one that was stopped with the program would never end
        if (!told && ms_since(begun) > silence_ms) {
            say(fmt::format("waits for process {}, which may still complete an image in {}",
                            fmt::join(*savers, ", "), task_.keeping.directory));
            told = true;
        }
        images = Error(EAGAIN, ""); // gives the lock back
        pause(look_ms);
    }
}

Action Supervisor::judge()
{
    const int status = *status_;
    const bool asked = (WIFSIGNALED(status) && wishes_.had(WTERMSIG(status))) || wishes_.end() != 0;
    if (was_back_) // else it is not the program's
        program_status_ = status;
    else if (asked)
        program_status_ = wishes_.end() != 0 ? wishes_.end() : status;
    const End end = {.wait_status = status,
                     .was_back = was_back_,
                     .may_pass = !was_back_ && may_pass(status),
                     .was_asked = asked,
                     .can_begin_again = has_input_again(input_at_)};
    if (!decision_.is_fault(end))
        return {.what = Do::end};
    tell_fault(end);
    const auto stop = [](const Error &error) {
        return Action{.what = Do::give_up, .why = error.text()};
    };
    const auto await = [&] { return reap() || (await_change(-1), wishes_.end() == 0); };
    if (Result<void> done = leftovers_.end(await); !done)
        return stop(done.error());
    if (!was_back_)
        pause(pause_ms << std::min(in_vain_++, most_doublings));
    Result<Images> images = take_images();
    if (!images)
        return stop(images.error());
    Action next = decision_.after(end, images->offer());
    for (const std::string &name : next.abandoned) {
        say(fmt::format("it has come no further than {}/{}, which is abandoned",
                        task_.keeping.directory, name));
        if (Result<void> done = images->abandon(name); !done)
            return stop(done.error());
    }
    take_signals();
    return next;
}

// Processes that go on without the first one. A copy from which an image is written is none, nor is
// one that is ending: without memory of its own it has no program any more, and never will.
void Supervisor::tell_rest()
{
    reap();
    Result<std::set<pid_t>> rest = leftovers_.all();
    const auto ends = [](pid_t pid) {
        const Result<std::string> program = capture::Proc(pid).link("exe");
        return (!program && program.error().code() == ENOENT) || restore::is_passing(pid);
    };
    if (rest)
        std::erase_if(*rest, ends);
    if (!rest || rest->empty())
        return;
    const bool one = rest->size() == 1;
    say(fmt::format("{} of {} {} on without its first one, and nobody brings {} back",
                    cli::count_text(rest->size(), "process", "processes"), task_.words.front(),
                    one ? "goes" : "go", one ? "it" : "them"));
}

// The program has ended for good.
int Supervisor::finish()
{
    if (publisher_)
        publisher_->withdraw();
    tell_rest();
    if (task_.keeping.made_directory && said_.checkpoint.empty()) {
        // The keeper, which ends now, has files there.
        static_cast<void>(Images::take(task_.keeping.directory));
        rmdir(task_.keeping.directory.c_str());
    }
    return parent::mimic(program_status_);
}

int Supervisor::give_up(const std::string &why)
{
    const std::string where = "; its images are in " + task_.keeping.directory;
    say(fmt::format("{} is not brought back: {}{}", task_.words.front(), why,
                    said_.checkpoint.empty() ? "" : where));
    return finish();
}

std::optional<int> Supervisor::run()
{
    if (Result<void> ready = prepare(); !ready)
        return cli::fail("cr_run", ready.error());
    Action next = {.what = Do::begin_again};
    for (bool first = true;; first = false) {
        if (!first && next.what != Do::end && wishes_.end() != 0) { // while nobody was there
            program_status_ = wishes_.end();
            next.what = Do::end;
        }
        Result<bool> done = false;
        switch (next.what) {
        case Do::end:
            return finish();
        case Do::give_up:
            return give_up(next.why);
        case Do::begin_again:
            done = begin();
            break;
        case Do::restart:
            if (Result<void> started = restart(next.image); !started)
                done = started.error();
            break;
        }
        if (done && *done)
            return {};
        if (!done) {
            if (first && publisher_)
                publisher_->withdraw();
            if (first && task_.keeping.made_directory)
                rmdir(task_.keeping.directory.c_str());
            return first ? cli::fail("cr_run", done.error()) : give_up(done.error().text());
        }
        await_end();
        next = judge();
    }
}

} // namespace cryo::recover
