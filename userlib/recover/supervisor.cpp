// SPDX-License-Identifier: Apache-2.0
#include "recover/supervisor.hpp"

#include "base/clock.hpp"
#include "base/pipe.hpp"
#include "cli/command.hpp"
#include "cli/text.hpp"
#include "keeper/launch.hpp"
#include "parent/forward.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
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
constexpr int last_patience_ms = 5000;

// Of no other supervisor whose snapshots lie in the same directory.
std::string new_series()
{
    return fmt::format("{}-{:x}", getpid(), clock_ns(CLOCK_REALTIME));
}

std::string seconds_text(int64_t ns)
{
    return cli::duration_text(static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

} // namespace

Supervisor::Supervisor(Task task)
    : task_(std::move(task)), series_(new_series()),
      subject_(make_subject(task_.keeping, task_.words, series_)), decision_(task_.policy),
      teller_(task_.words, task_.keeping.directory), standby_(task_.policy.standby),
      nodes_(task_.policy.spares, task_.policy.packs), wishes_(Wishes::ignored())
{}

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
    teller_.said().spares = nodes_.spares_left();
    teller_.open();
    return {};
}

Result<bool> Supervisor::begin()
{
    Result<PipeEnds> gate = make_pipe();
    Result<PipeEnds> report = make_pipe(); // of a job's first daemon
    if (!gate || !report)
        return gate ? report.error() : gate.error();
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
        report_of_job_ = std::move(report->write);
        return true;
    }
    listen_to(std::move(report->read), Run::first);
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
    teller_.note_program(child_, child_);
    const ssize_t opened = write(gate->write.get(), "", 1);
    static_cast<void>(opened); // if it was not, the child has been ended meanwhile
    return false;
}

// If no process can be made for it, that is not the image's fault, and may pass.
void Supervisor::restart(const std::string &image)
{
    image_ = subject_->path_of(image);
    image_made_ns_ = subject_->made_ns(image);
    from_memory_ = standby_.held() == image;
    status_.reset();
    was_back_ = false;
    std::vector<std::string> options = hosts_;
    if (from_memory_ && task_.policy.maps)
        options.emplace_back("--lazy");
    Result<Restart> begun = begin_restart(*subject_, image, options, before_);
    if (!begun) {
        teller_.say(begun.error().text());
        status_ = W_EXITCODE(EAGAIN, 0);
    }
    child_ = begun ? begun->pid : 0;
    listen_to(begun ? std::move(begun->report) : Fd(), Run::restart);
}

void Supervisor::listen_to(Fd report, Run run)
{
    report_.begin(std::move(report));
    news_.begin_run(run);
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
    if ((!is_there || (!was_back_ && !is_left_alone())) && !Wishes::asks(signal))
        held_.push_back(info);
    else if (is_there)
        send(info);
}

// A job whose daemon was killed: nobody will tell that it is back, and a launcher passes signals
// on.
bool Supervisor::is_left_alone() const
{
    return subject_->has_daemon() && report_.fd() < 0 && news_.was_left();
}

void Supervisor::send_held()
{
    if (!status_)
        std::ranges::for_each(held_, [this](const signalfd_siginfo &info) { send(info); });
    held_.clear();
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
        if (standby_.waited_for(pid, status)) {
            note_standby();
            teller_.publish();
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
    teller_.said().kept = false;
    teller_.publish();
    teller_.say(fmt::format("{} is not saved any more: the process that makes its images {}",
                            task_.words.front(), end_text(wait_status)));
}

void Supervisor::note_keeper(pid_t pid)
{
    keeper_ = pid;
    teller_.said().kept = pid != 0;
    if (pid != 0)
        leftovers_.add_keeper(pid);
}

void Supervisor::read_report()
{
    for (const nlohmann::json &line : report_.read()) {
        news_.heard(now_ns());
        if (!subject_->has_daemon())
            welcome(return_in(line));
        else if (news_.take(line) && !was_back_)
            welcome({.pid = child_,
                     .own_pid = child_,
                     .saved_at_ns = image_made_ns_,
                     .keeper = news_.keeper()});
    }
    if (is_left_alone() && child_ > 0 && !status_)
        send_held();
}

void Supervisor::welcome(const Return &back)
{
    was_back_ = true;
    nodes_.came();
    in_vain_ = 0;
    teller_.said().recoveries++;
    note_keeper(back.keeper);
    teller_.note_program(back.pid, back.own_pid);
    send_held();
    const std::string known = back.own_pid != back.pid
                                  ? fmt::format("{} ({} here)", back.own_pid, back.pid)
                                  : std::to_string(back.pid);
    const char *memory = !standby_.is_wanted() ? ""
                         : !from_memory_       ? "; its image was not held in memory"
                         : task_.policy.maps   ? "; its image is mapped from memory"
                                               : "; its image was held in memory";
    teller_.say(fmt::format("{}; {} {} is back from {} after {}: {} of its work is done again{}{}",
                            teller_.said().last_fault,
                            subject_->has_daemon() ? "the job of process" : "process", known,
                            image_, seconds_text(clock_ns(CLOCK_REALTIME) - fault_ns_),
                            seconds_text(fault_ns_ - back.saved_at_ns), memory,
                            teller_.said().kept ? "" : "; no more images are made"));
}

void Supervisor::look_at_images()
{
    alignas(inotify_event) char events[4096];
    while (read(watch_.get(), events, sizeof(events)) > 0) {
    }
    const Checkpoint newest = subject_->newest();
    if (newest.path.empty() || newest.path == teller_.said().checkpoint)
        return;
    wishes_.image_came();
    teller_.said().checkpoint = newest.path;
    teller_.said().checkpoint_ns = newest.made_ns;
    if (standby_.is_wanted())
        hold_newest(newest.path);
    teller_.publish();
}

void Supervisor::hold_newest(const std::string &path)
{
    const std::string name = path.substr(path.rfind('/') + 1);
    const pid_t child = standby_.hold(
        name, [&] { return subject_->reads(name); }, before_);
    if (child != 0)
        leftovers_.add_own(child);
    note_standby();
}

void Supervisor::note_standby()
{
    const std::string &held = standby_.held();
    teller_.said().standby = held.empty() ? "" : subject_->path_of(held);
    teller_.said().standby_bytes = standby_.bytes();
    if (!standby_.told().empty())
        teller_.say(standby_.told());
}

// False after `timeout_ms`; -1: however long it takes. A program that stands still is no fault, so
// no end is ever concluded from time.
bool Supervisor::await_change(int timeout_ms)
{
    pollfd ready[] = {{signals_.get(), POLLIN, 0},
                      {watch_ ? watch_.get() : -1, POLLIN, 0},
                      {report_.fd(), POLLIN, 0},
                      {standby_.fd(), POLLIN, 0}};
    const int got = poll(ready, std::size(ready), timeout_ms);
    if (got == 0)
        return false;
    if (got < 0)
        return true;
    if (ready[1].revents != 0)
        look_at_images();
    if (ready[2].revents != 0)
        read_report();
    if (ready[3].revents != 0 && standby_.read()) {
        note_standby();
        teller_.publish();
    }
    if (ready[0].revents != 0)
        take_signals();
    reap();
    return true;
}

// How long to wait for the launcher's end before this is called again.
int Supervisor::look_at_nodes()
{
    return news_.lost().empty() ? -1 : launcher_end_.next(child_);
}

void Supervisor::await_end()
{
    launcher_end_ = {};
    while (!status_)
        await_change(look_at_nodes());
    // What the program was sent with its end, and what cr_restart has said before its own.
    take_signals();
    read_report();
    if (!subject_->has_daemon())
        report_.end();
    child_ = 0;
}

void Supervisor::tell_rest()
{
    reap();
    const Result<std::set<pid_t>> rest = leftovers_.going_on();
    if (!rest || rest->empty())
        return;
    const bool one = rest->size() == 1;
    teller_.say(fmt::format("{} of {} {} on without its first one, and nobody brings {} back",
                            cli::count_text(rest->size(), "process", "processes"),
                            task_.words.front(), one ? "goes" : "go", one ? "it" : "them"));
}

// The program has ended for good.
int Supervisor::finish()
{
    standby_.end();
    teller_.withdraw();
    tell_rest();
    if (task_.keeping.made_directory && teller_.said().checkpoint.empty()) {
        // The keeper, which ends now, has files there.
        static_cast<void>(subject_->past(last_patience_ms));
        rmdir(task_.keeping.directory.c_str());
    }
    return parent::mimic(program_status_);
}

int Supervisor::give_up(const std::string &why)
{
    const std::string where = "; its images are in " + task_.keeping.directory;
    teller_.say(fmt::format("{} is not brought back: {}{}", task_.words.front(), why,
                            teller_.said().checkpoint.empty() ? "" : where));
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
            restart(next.image);
            break;
        }
        if (done && *done)
            return {};
        if (!done) {
            if (first)
                teller_.withdraw();
            if (first && task_.keeping.made_directory)
                rmdir(task_.keeping.directory.c_str());
            return first ? cli::fail("cr_run", done.error()) : give_up(done.error().text());
        }
        await_end();
        next = judge();
    }
}

} // namespace cryo::recover
