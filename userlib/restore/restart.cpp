// SPDX-License-Identifier: Apache-2.0
#include "restore/restart.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "base/write_all.hpp"
#include "look/back_stopped.hpp"
#include "look/former_holders.hpp"
#include "restore/choosing_ids.hpp"
#include "restore/compare.hpp"
#include "restore/ending_signals.hpp"
#include "restore/how_ended.hpp"
#include "restore/nursery.hpp"
#include "restore/page_sender.hpp"
#include "restore/reports.hpp"
#include "restore/stopping.hpp"
#include "restorer/enter.hpp"
#include "restorer/restorer.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <linux/close_range.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

Result<Fd> memory_file(const char *name, const std::string &bytes)
{
    Fd file(memfd_create(name, MFD_CLOEXEC));
    if (!file)
        return Error::from_errno("memfd_create", errno);
    if (Result<void> written = write_all(file.get(), fmt::format("writing {}", name), bytes);
        !written)
        return written.error();
    return file;
}

// The environment of this command, as /proc/PID/environ shows one.
Result<Fd> environment_file()
{
    std::string block;
    for (char **variable = environ; *variable != nullptr; variable++)
        block.append(*variable).push_back(0);
    return memory_file("cryo environment", block);
}

class Restart
{
  public:
    Restart(TreePlan &tree, int device, const RestartWatch &watch)
        : tree_(tree), device_(device), watch_(watch)
    {}

    Result<Restarted> run(const std::string &library);

  private:
    // Our side of a process that has a plan.
    struct Link {
        TreePlan::Process *process;
        Fd plan, status, pages, go;             // our ends
        Fd their_status, their_pages, their_go; // until the processes are made
        bool released = false;                  // threads of it run the program
        bool born = false;                      // a copy has reported it
    };

    Result<void> prepare(const std::string &library);
    void give_descriptors();
    Result<void> bring_up();
    bool hear_birth(Link &link);
    Result<void> await_birth(Link &link);
    void end_all();
    Link &link_of(int number);
    Result<void> send_pages(Link &link);
    ssize_t read_report(Link &link, uint32_t word, Failure &said);
    Result<void> hear(Link &link, uint32_t word);
    Result<void> meet(uint32_t word);
    void send_signal();
    Result<void> stop_again();
    Result<void> look();
    void tell_progress(uint64_t bytes);
    // A stopped or dead process does not report that it is alive.
    bool is_silent() const { return tree_.then_signal == SIGSTOP || tree_.then_signal == SIGKILL; }
    pid_t pid_of(const Link &link) const
    {
        return pids_[static_cast<size_t>(link.process - tree_.processes.data())];
    }

    TreePlan &tree_;
    int device_;
    const RestartWatch &watch_;
    std::optional<EndingSignals> ending_; // set while there are processes
    uint64_t to_send_ = 0;
    Fd environment_;
    std::vector<Link> links_;
    Nursery nursery_;
    std::vector<pid_t> pids_;
    uint64_t sent_ = 0;
    uint64_t moved_ = 0; // sent, and compared
    int failed_callback_ = 0;
};

Result<void> Restart::prepare(const std::string &library)
{
    Ids ids = ids_of(device_);
    for (const TreePlan::Process &process : tree_.processes) {
        ids.may_choose(process.kin.pid);
        for (const pid_t thread : process.kin.threads)
            ids.may_choose(thread);
    }
    if (device_ >= 0)
        nursery_.set_maker(make_process_by_module, ids);
    if (tree_.for_requester)
        nursery_.make_siblings(tree_.lost);
    Result<Fd> surroundings = environment_file();
    if (!surroundings)
        return surroundings.error();
    environment_ = std::move(*surroundings);
    for (TreePlan::Process &process : tree_.processes) {
        Newborn &kin = process.kin;
        if (process.plan) {
            RestartPlan &own = *process.plan;
            own.header.home_id = ids.home;
            own.header.least_id = ids.least;
            own.header.greatest_id = ids.greatest;
            for (const Fill &fill : own.fills)
                to_send_ += fill.count * image::kPageSize;
            Result<Fd> plan = memory_file(capture::plan_name, own.program.finish(own.header));
            Result<PipeEnds> status = make_pipe();
            Result<PipeEnds> pages = make_pipe();
            Result<PipeEnds> go = make_pipe(); // one each, so that no process takes another's byte
            if (!plan)
                return plan.error();
            for (const Result<PipeEnds> *pipe : {&status, &pages, &go}) {
                if (!*pipe)
                    return pipe->error();
            }
            kin.exe = own.exe;
            kin.exe_fd = own.exe_fd;
            kin.arguments = own.arguments;
            kin.environment = own.environment;
            kin.environment.push_back("LD_PRELOAD=" + library);
            kin.environment.push_back(fmt::format("{}={}", plan_variable, own.header.plan_fd));
            kin.personality = own.personality;
            kin.floor = own.floor;
            kin.report = status_fd_offset;
            kin.descriptors = {plan->get(),         go->read.get(),    environment_.get(),
                               status->write.get(), pages->read.get(), device_};
            for (const Fd &fd : own.inherited)
                nursery_.keep(fd.get());
            links_.push_back({&process, std::move(*plan), std::move(status->read),
                              std::move(pages->write), std::move(go->write),
                              std::move(status->write), std::move(pages->read),
                              std::move(go->read)});
        }
    }
    give_descriptors();
    for (const TreePlan::Process &process : tree_.processes)
        nursery_.add(process.kin);
    return tree_.rehearse ? check_room(to_send_) : Result<void>();
}

// A copy inherits its descriptors, through all that are between, from a process that the nursery
// makes.
void Restart::give_descriptors()
{
    for (const Link &link : links_) {
        if (!link.process->kin.is_copy)
            continue;
        Newborn &head = tree_.processes[static_cast<size_t>(link.process->family)].kin;
        const auto first = static_cast<size_t>(link.process->descriptors - head.floor);
        head.descriptors.resize(std::max(head.descriptors.size(), first + copy_descriptors), -1);
        const int own[] = {link.plan.get(), link.their_go.get(), link.their_status.get(),
                           link.their_pages.get()};
        std::ranges::copy(own, head.descriptors.begin() + static_cast<ptrdiff_t>(first));
    }
}

Restart::Link &Restart::link_of(int number)
{
    return *std::ranges::find(links_, &tree_.processes[static_cast<size_t>(number)],
                              &Link::process);
}

// Whether the copy has reported its birth. It has not if its parent has ended before.
bool Restart::hear_birth(Link &link)
{
    const pid_t pid = read_birth(link.status.get());
    if (pid == 0)
        return false;
    const auto number = static_cast<size_t>(link.process - tree_.processes.data());
    pids_[number] = pid;
    nursery_.add_copy(number, pid);
    link.born = true;
    return true;
}

// A copy is born when its parent has its own memory.
Result<void> Restart::await_birth(Link &link)
{
    ending_->await(link.status.get());
    if (hear_birth(link))
        return {};
    // The parent knows why; else the copy has ended by itself.
    if (Result<void> heard = hear(link_of(link.process->kin.parent), says_ready); !heard)
        return heard;
    return Error(ECHILD, link.process->image->name() + ": the process died before it was restored");
}

// A copy that has reported nothing yet may exist nevertheless, or its parent has ended before
// making it.
void Restart::end_all()
{
    nursery_.end_all();
    for (Link &link : links_) {
        if (link.process->kin.is_copy && !pids_.empty() && !link.born && hear_birth(link))
            nursery_.end_all();
    }
}

Result<void> Restart::send_pages(Link &link)
{
    Result<PageSender> sender = PageSender::create(std::move(link.pages));
    if (!sender)
        return sender.error();
    for (const Fill &fill : link.process->plan->fills) {
        Result<void> sent = sender->send(*link.process->image, fill, [this](uint64_t bytes) {
            sent_ += bytes;
            tell_progress(bytes);
        });
        if (!sent)
            return sent;
    }
    return {};
}

void Restart::tell_progress(uint64_t bytes)
{
    moved_ += bytes;
    const uint64_t total = tree_.rehearse ? 2 * to_send_ : to_send_;
    if (watch_.progress)
        watch_.progress(std::min(moved_, total), total);
    if (moved_ < total)
        ending_->let_through();
}

// A word, two, or a failure.
ssize_t Restart::read_report(Link &link, uint32_t word, Failure &said)
{
    for (;;) {
        // In a tree, other processes may run by the time this one reports that it is alive.
        if (!link.released && (!tree_.meets || word != says_alive))
            ending_->await(link.status.get());
        if (link.released && !says_more(link.status.get(), pid_of(link)))
            return 0;
        const ssize_t n = read(link.status.get(), &said, sizeof(said));
        if (n < 0 && errno == EINTR)
            continue;
        uint32_t first = 0;
        memcpy(&first, &said, sizeof(first));
        if (n <= 0 || n == sizeof(said) || first != says_released)
            return n;
        link.released = true;
        const size_t rest = static_cast<size_t>(n) - sizeof(first);
        memmove(&said, reinterpret_cast<const char *>(&said) + sizeof(first), rest);
        if (rest > 0)
            return static_cast<ssize_t>(rest);
    }
}

Result<void> Restart::hear(Link &link, uint32_t word)
{
    Failure said = {};
    const ssize_t n = read_report(link, word, said);
    uint32_t heard = 0;
    memcpy(&heard, &said, sizeof(heard));
    if (n == sizeof(word) && heard == word)
        return {};
    // The process is alive, and its callbacks are over already: their result comes with the report.
    if (n == 2 * sizeof(word) && heard == word && word == says_alive) {
        if (&link == &links_.front())
            failed_callback_ = said.error;
        return {};
    }
    // What a program that runs does is its own affair, and so is its end.
    if (n == 0 && word == says_alive &&
        (link.released || (tree_.meets && was_killed(pid_of(link)))))
        return {};
    if (n == sizeof(said))
        return Error::from_errno(std::string(link.process->plan->program.message(said.op)),
                                 said.error)
            .within(link.process->image->name());
    const std::string how = how_ended(pid_of(link));
    return Error(ECHILD, fmt::format("{}: the process died while it was being restored{}{}",
                                     link.process->image->name(), how.empty() ? "" : ": ", how));
}

// Waits for the report of all processes, and lets all go on.
Result<void> Restart::meet(uint32_t word)
{
    for (Link &link : links_) {
        if (word == says_alive && link.process->stopped)
            continue;
        if (Result<void> heard = hear(link, word); !heard)
            return heard;
    }
    if (word == says_ready) {
        if (Result<void> sealed = tree_.seals.put(); !sealed)
            return sealed.error().within(tree_.name);
    }
    // Processes outside the image may see these contents, too: set as late as possible.
    if (tree_.ipc) {
        Result<void> done = word == says_ready      ? tree_.ipc->fill()
                            : word == says_complete ? tree_.ipc->finish()
                                                    : Result<void>();
        if (!done)
            return done.error().within(tree_.name);
    }
    if (word == says_complete && tree_.rehearse)
        return look();
    if (word == says_complete) {
        if (Result<void> stopped = stop_again(); !stopped)
            return stopped;
    }
    if (word == says_complete) {
        if (Result<void> left = nursery_.leave_orphans(); !left)
            return left;
    }
    if (word == says_complete) {
        if (Result<void> goes = tree_.processes.front().plan->connections.start(); !goes)
            return goes.error().within(tree_.name);
    }
    if (word == says_complete && tree_.then_signal != 0)
        send_signal();
    if (word == says_complete && tree_.then_signal == SIGKILL)
        return {};
    for (Link &link : links_) {
        const char byte = 0;
        if (word == says_alive || write(link.go.get(), &byte, sizeof(byte)) == sizeof(byte))
            continue;
        const int error = errno;
        if (error != EPIPE || word != says_complete || !was_killed(pid_of(link)))
            return Error::from_errno("letting the processes go on", error);
    }
    return {};
}

// Compares the processes, which are complete and would run now.
Result<void> Restart::look()
{
    for (const Link &link : links_) {
        const TreePlan::Process &process = *link.process;
        const Comparison one{*process.image,
                             *tree_.processes.front().image,
                             *process.saved,
                             *process.plan,
                             pid_of(link),
                             process.kin,
                             [this](uint64_t bytes) { tell_progress(bytes); }};
        if (Result<void> same = compare(one); !same)
            return same;
    }
    return {};
}

// Stops those that were saved as stopped. Their byte to go on waits until they are continued.
Result<void> Restart::stop_again()
{
    for (const Link &link : links_) {
        if (!link.process->stopped)
            continue;
        const int signal = link.process->stop_signal;
        const Result<int> stopped = stop_process(pid_of(link), signal);
        if (!stopped)
            return stopped.error().within(link.process->image->name());
        if (*stopped != signal)
            tree_.notices.push_back(about_other_stop(pid_of(link), signal));
    }
    return {};
}

// No process runs the program's code yet; until then, signals that can be blocked are blocked.
void Restart::send_signal()
{
    for (const Link &link : links_) {
        const pid_t pid = pid_of(link);
        kill(pid, tree_.then_signal);
        siginfo_t info = {};
        // A process that is just running stops a little later.
        const bool ours = tree_.then_signal == SIGSTOP && !tree_.for_requester;
        while (ours &&
               waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT | WEXITED) == -1 &&
               errno == EINTR)
            ;
    }
}

Result<void> Restart::bring_up()
{
    Result<std::vector<pid_t>> born = nursery_.make();
    for (Link &link : links_) {
        link.process->plan->inherited.clear();
        link.their_status.reset();
        link.their_pages.reset();
        link.their_go.reset();
    }
    if (!born)
        return born.error().within(tree_.name);
    pids_ = std::move(*born);
    for (Link &link : links_) {
        if (Result<void> there = link.process->kin.is_copy ? await_birth(link) : Result<void>();
            !there)
            return there;
        Result<void> sent = send_pages(link);
        // If sending failed because the process gave up, its own report says more.
        if (!sent && sent.error().code() == EPIPE) {
            Result<void> heard = hear(link, says_alive);
            return heard ? std::move(sent) : std::move(heard);
        }
        if (!sent)
            return sent;
    }
    if (tree_.meets) {
        for (const uint32_t word : {says_ready, says_undo, says_complete}) {
            if (word == says_undo && !tree_.undo)
                continue;
            if (Result<void> met = meet(word); !met)
                return met;
        }
    }
    return is_silent() || tree_.rehearse ? Result<void>() : meet(says_alive);
}

Result<Restarted> Restart::run(const std::string &library)
{
    signal(SIGPIPE, SIG_IGN);
    if (Result<void> ready = prepare(library); !ready)
        return ready.error();
    std::vector<pid_t> wished;
    for (const TreePlan::Process &process : tree_.processes) {
        if (process.kin.pid != 0)
            wished.push_back(process.kin.pid);
    }
    if (Result<void> free = await_free(wished); !free)
        return free.error().within(tree_.name);
    // As a subreaper we can end all descendants until all are alive.
    int subreaper = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    ending_.emplace();
    if (watch_.begins)
        watch_.begins();
    Result<void> up = bring_up();
    if (!up || tree_.rehearse)
        end_all();
    if (!up)
        ending_->release();
    ending_.reset();
    prctl(PR_SET_CHILD_SUBREAPER, subreaper);
    if (!up)
        return up.error();
    return Restarted{pids_.front(),
                     links_.size(),
                     sent_,
                     std::move(links_.front().status),
                     failed_callback_,
                     is_silent() || links_.front().process->stopped};
}

} // namespace

Result<Restarted> restart(TreePlan &tree, const std::string &library, int device,
                          const RestartWatch &watch)
{
    Result<Restarted> done = Restart(tree, device, watch).run(library);
    if (!done && done.error().code() == EMFILE)
        return done.error().within(tree.name + ": raise the hard limit of descriptors (ulimit "
                                               "-Hn), of which each process takes several");
    return done;
}

} // namespace cryo::restore
