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
#include "recover/spawn.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
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
constexpr int pause_ms = 1000;       // before a failed restart is tried again
constexpr int longest_daemon_s = 60; // that a job's daemon may need to end

std::string clock_text()
{
    return fmt::format("{:%H:%M:%S}", fmt::localtime(time(nullptr)));
}

bool asks_to_end(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
}

std::string seconds_text(int64_t ns)
{
    return cli::duration_text(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

} // namespace

Supervisor::Supervisor(Task task)
    : task_(std::move(task)), subject_(make_subject(task_.keeping, task_.words)),
      decision_(task_.policy), said_(from_here())
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
    cli::say("cr_run", fmt::format("{} {}", clock_text(), text));
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
    Result<PipeEnds> report = make_pipe();
    if (!gate || !report)
        return gate ? report.error() : gate.error();
    if (input_at_ >= 0)
        lseek(STDIN_FILENO, input_at_, SEEK_SET);
    status_.reset();
    was_back_ = true;
    child_ = fork();
    if (child_ < 0)
        return Error::from_errno("fork", errno);
    if (child_ == 0) {
        sigprocmask(SIG_SETMASK, &before_, nullptr);
        gate->write.reset();
        char byte = 0;
        if (read(gate->read.get(), &byte, 1) != 1)
            _exit(not_begun); // no keeper could be started, or the supervisor was killed
        report_of_job_ = std::move(report->write);
        return true;
    }
    if (subject_->has_daemon())
        listen_to(std::move(report->read));
    keeper::Settings keeping = task_.keeping;
    keeping.made_directory = false; // an empty directory is still needed after a fault
    const Result<void> kept = keeper::launch(keeping, child_);
    if (!kept) {
        gate->write.reset();
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR)
            ;
        return kept.error();
    }
    said_.kept = true;
    note_program(child_, child_);
    const ssize_t opened = write(gate->write.get(), "", 1);
    static_cast<void>(opened); // if it was not, the child has been ended meanwhile
    return false;
}

Result<void> Supervisor::restart(const std::string &image)
{
    image_ = subject_->path_of(image);
    image_made_ns_ = subject_->made_ns(image);
    Result<PipeEnds> report = make_pipe();
    if (!report)
        return report.error();
    status_.reset();
    was_back_ = false;
    const Result<pid_t> child =
        spawn(subject_->restart_words(image, report->write.get()), report->write.get(), before_);
    child_ = child ? *child : 0;
    if (!child)
        return child.error();
    listen_to(std::move(report->read));
    return {};
}

void Supervisor::listen_to(Fd report)
{
    report_.begin(std::move(report));
    news_.begin_run();
}

// The terminal has sent its signals to the program itself, or to cr_restart, which knows whether
// they are for the program.
void Supervisor::take_signal(const signalfd_siginfo &info)
{
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD)
        return;
    passed_.insert(signal);
    if (info.ssi_code == SI_KERNEL)
        return;
    // A cr_restart that is still at work would be ended by it.
    if (!was_back_ && !asks_to_end(signal))
        held_.push_back(info);
    else if (child_ > 0 && !status_)
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
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0; any = true) {
        leftovers_.waited_for(pid);
        if (pid == child_ && !status_) // later, a child may have got its number
            status_ = status;
    }
    return any;
}

void Supervisor::read_report()
{
    for (const nlohmann::json &said : report_.read()) {
        if (!subject_->has_daemon())
            welcome({.pid = said.value("pid", 0),
                     .own_pid = said.value("own_pid", 0),
                     .saved_at_ns = said.value("saved_at_ns", int64_t(0)),
                     .kept = said.value("kept", false)});
        else if (news_.take(said) && !was_back_)
            welcome(
                {.pid = child_, .own_pid = child_, .saved_at_ns = image_made_ns_, .kept = true});
    }
}

void Supervisor::welcome(const Return &back)
{
    was_back_ = true;
    said_.recoveries++;
    said_.kept = back.kept;
    note_program(back.pid, back.own_pid);
    if (!status_)
        std::ranges::for_each(held_, [this](const signalfd_siginfo &info) { send(info); });
    held_.clear();
    const std::string known = back.own_pid != back.pid
                                  ? fmt::format("{} ({} here)", back.own_pid, back.pid)
                                  : std::to_string(back.pid);
    say(fmt::format("{}; {} {} is back from {} after {}: {} of its work is done again{}",
                    said_.last_fault, subject_->has_daemon() ? "the job of process" : "process",
                    known, image_, seconds_text(clock_ns(CLOCK_REALTIME) - fault_ns_),
                    seconds_text(fault_ns_ - back.saved_at_ns),
                    back.kept ? "" : "; no more images are made"));
}

// Until a job's daemon has ended, or said what `is_enough`.
template <class Enough>
void Supervisor::await_daemon(const Enough &is_enough)
{
    const int64_t until = clock_ns(CLOCK_MONOTONIC) + longest_daemon_s * int64_t(1'000'000'000);
    while (report_.fd() >= 0 && !is_enough() && asked_to_end() == 0 &&
           clock_ns(CLOCK_MONOTONIC) < until)
        await_change(pause_ms);
}

// Whether a launcher has failed that did not end its ranks. Its exit status need not tell.
bool Supervisor::has_left_others()
{
    if (!subject_->has_daemon() || *status_ == 0)
        return false;
    await_daemon([this] { return news_.knows_launchers_end(); });
    return news_.launcher_left_ranks();
}

// After the end of a job's processes here: whether those of other nodes have ended, too.
Result<void> Supervisor::await_rest()
{
    if (!subject_->has_daemon())
        return {};
    await_daemon([] { return false; });
    return news_.check_end();
}

void Supervisor::look_at_images()
{
    alignas(inotify_event) char events[4096];
    while (read(watch_.get(), events, sizeof(events)) > 0) {
    }
    const Checkpoint newest = subject_->newest();
    if (newest.path.empty() || newest.path == said_.checkpoint)
        return;
    passed_.clear(); // the program has not taken these as the end
    said_.checkpoint = newest.path;
    said_.checkpoint_ns = newest.made_ns;
    publish();
}

// False after `timeout_ms`; -1: however long it takes. A program that stands still is no fault, so
// no end is ever concluded from time.
bool Supervisor::await_change(int timeout_ms)
{
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {watch_ ? watch_.get() : -1, POLLIN, 0},
                      {report_.fd(), POLLIN, 0}};
    const int got = poll(ready, std::size(ready), timeout_ms);
    if (got == 0)
        return false;
    if (got < 0)
        return true;
    if (ready[1].revents != 0)
        look_at_images();
    if (ready[2].revents != 0)
        read_report();
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
    read_report();
    if (!subject_->has_daemon())
        report_.end();
    child_ = 0;
}

void Supervisor::tell_fault(const End &end)
{
    fault_ns_ = was_back_ ? clock_ns(CLOCK_REALTIME) : fault_ns_;
    said_.faults++;
    said_.last_fault = end.was_back ? subject_->end_text(said_.own_pid, *status_)
                                    : fmt::format("the restart from {} failed ({})", image_,
                                                  end_text(end.wait_status));
    say(fmt::format("{}: {}", task_.words.front(), said_.last_fault));
    note_program(0, said_.own_pid);
}

// The signal that has asked the program to end, and was not followed by an image; else 0.
int Supervisor::asked_to_end() const
{
    const auto found = std::ranges::find_if(passed_, asks_to_end);
    return found != passed_.end() ? *found : 0;
}

Action Supervisor::judge()
{
    const int status = subject_->end_of(*status_);
    const bool asked =
        (WIFSIGNALED(status) && passed_.contains(WTERMSIG(status))) || asked_to_end() != 0;
    if (was_back_ || asked)
        program_status_ = *status_;
    const End end = {.wait_status = status,
                     .was_back = was_back_,
                     .left_others = has_left_others(),
                     .was_asked = asked,
                     .can_begin_again = has_input_again(input_at_)};
    if (!decision_.is_fault(end))
        return {.what = Do::end};
    tell_fault(end);
    const auto stop = [](const Error &error) {
        return Action{.what = Do::give_up, .why = error.text()};
    };
    const auto await = [&] { return reap() || (await_change(-1), asked_to_end() == 0); };
    if (Result<void> done = leftovers_.end(await); !done)
        return stop(done.error());
    if (Result<void> done = await_rest(); !done)
        return stop(done.error());
    if (!was_back_)
        await_change(pause_ms);
    Result<std::unique_ptr<Past>> past = subject_->past();
    if (!past)
        return stop(past.error());
    Action next = decision_.after(end, (*past)->names());
    for (const std::string &name : next.abandoned) {
        say(fmt::format("it has come no further than {}, which is abandoned",
                        subject_->path_of(name)));
        if (Result<void> done = (*past)->abandon(name); !done)
            return stop(done.error());
    }
    take_signals();
    return next;
}

// Processes that go on without the first one. A copy from which an image is written is none, nor is
// one that is ending, such as the keeper, which is not known by its program any more.
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
        static_cast<void>(subject_->past());
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
        if (!first && next.what != Do::end && asked_to_end() != 0) { // while nobody was there
            program_status_ = asked_to_end();
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
            return first ? cli::fail("cr_run", done.error()) : give_up(done.error().text());
        }
        await_end();
        next = judge();
    }
}

} // namespace cryo::recover
