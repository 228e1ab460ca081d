// SPDX-License-Identifier: Apache-2.0
// cr_restart: brings saved processes back, stays the parent of the first, and ends as it ends.
#include "backend/backend.hpp"
#include "backend/open_image.hpp"
#include "backend/private_directory.hpp"
#include "base/owner_teller.hpp"
#include "checkpointers.hpp"
#include "cli/command.hpp"
#include "cli/place.hpp"
#include "cli/requester.hpp"
#include "cli/text.hpp"
#include "elsewhere.hpp"
#include "keeper/launch.hpp"
#include "look/filters.hpp"
#include "metrics/commands.hpp"
#include "options.hpp"
#include "parent/forward.hpp"
#include "pid_namespace.hpp"
#include "restore/choosing_ids.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace {

using cryo::Fd;
using cryo::parent::forward_signals;
using cryo::parent::hold_signals;
using cryo::parent::mimic;
using cryo::parent::release_signals;

// Passes the descriptor of an image that came from a pipe to a namespace's first process.
constexpr const char *kept_variable = "CRYO_RESTART_IMAGE";
// Tells it where the image is that came from an object store.
constexpr const char *brought_variable = "CRYO_RESTART_BROUGHT";

cryo::Error callback_failure(const std::string &file, int failure)
{
    return {failure, fmt::format("{}: a callback of the program failed after the restart; it has "
                                 "been killed",
                                 file)};
}

std::string away(int64_t cut_ns)
{
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t s = std::max<int64_t>(0, now.tv_sec - cut_ns / 1'000'000'000);
    if (s < 120)
        return fmt::format("{} s", s);
    if (s < 7200)
        return fmt::format("{} min", s / 60);
    return s < 172800 ? fmt::format("{} h", s / 3600) : fmt::format("{} days", s / 86400);
}

// A rehearsed program has our standard descriptors, and
// may change their flags. If it fails, it leaves no core.
void be_alone()
{
    const cryo::Fd empty(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int fd = 0; fd <= 2; fd++)
        dup2(empty.get(), fd);
    rlimit core = {};
    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = 0;
    setrlimit(RLIMIT_CORE, &core);
}

// Tells the process that waits for us of our progress. It need not read this.
void add_heartbeat(Listener &listener, int to)
{
    fcntl(to, F_SETFD, FD_CLOEXEC);
    fcntl(to, F_SETFL, O_NONBLOCK);
    const auto beat = [to] {
        const char byte = 0;
        return write(to, &byte, 1) == 1;
    };
    listener.phase = [beat, tell = listener.phase](std::string_view text) {
        beat();
        if (tell)
            tell(text);
    };
    listener.progress = [beat, tell = listener.progress](uint64_t done, uint64_t total) {
        beat();
        if (tell)
            tell(done, total);
    };
}

class Command
{
  public:
    Command(Options &options, char **argv) : options_(options), argv_(argv) {}

    // An image at a server becomes a file of ours that has no name.
    cryo::Result<void> fetch();
    int run();
    // As the first process of a pid namespace.
    int run(Inside &inside);

  private:
    cryo::Result<cryo::backend::Alive> restart(const Listener &listener);
    cryo::Result<cryo::backend::Alive> restart_apart(const Listener &listener);
    cryo::Result<bool> needs_namespace();
    cryo::Result<void> bring(const Listener &listener);
    void forget_brought();
    cryo::Result<End> await_end(pid_t pid);
    int tell_rehearsed(const cryo::Result<cryo::backend::Alive> &alive);
    int report(const cryo::backend::Alive &alive);
    void tell(const cryo::backend::Alive &alive) const;
    static void count(const cryo::Result<cryo::backend::Alive> &alive);
    void tell_supervisor(const cryo::backend::Alive &alive, pid_t keeper) const;
    int fail(const cryo::Error &error, pid_t pid = 0) const
    {
        release_signals();
        const int code = options_.talk.fail(error, pid);
        return options_.hooks.failed(error.code() != 0 ? error.code() : EIO, code);
    }

    Options &options_;
    char **argv_;
    std::optional<Outside> outside_;
    Fd kept_; // the image, if it came down a pipe or from a server
    std::optional<cryo::backend::PrivateDirectory> brought_; // if it came from an object store
    std::unique_ptr<cryo::backend::Backend> backend_;
    pid_t lost_ = 0;
};

cryo::Result<void> Command::fetch()
{
    if (!options_.url)
        return {};
    cryo::Result<Fd> image = fetch_from_server(options_);
    if (!image)
        return image.error();
    kept_ = std::move(*image);
    options_.request.fd = kept_.get();
    return {};
}

cryo::Result<cryo::backend::Alive> Command::restart(const Listener &listener)
{
    cryo::backend::RestartRequest &request = options_.request;
    request.options.for_requester = cryo::cli::has_requester();
    request.options.lost = &lost_;
    request.library = cryo::cli::library("libcr_run.so");
    request.phase = listener.phase;
    request.progress = listener.progress;
    request.begins = listener.begins;
    cryo::Result<std::unique_ptr<cryo::backend::Backend>> chosen =
        cryo::backend::choose_for_image(options_.backend, options_.image, request, listener.remark);
    if (!chosen)
        return chosen.error();
    backend_ = std::move(*chosen);
    backend_->set_filename(options_.image);
    return backend_->restart(request);
}

cryo::Result<void> Command::bring(const Listener &listener)
{
    if (options_.stored.empty())
        return {};
    cryo::Result<cryo::backend::PrivateDirectory> brought = bring_from_store(options_);
    if (!brought)
        return brought.error();
    brought_.emplace(std::move(*brought));
    if (listener.phase)
        listener.phase("brought the image");
    return {};
}

// The processes have all that they need of it; what is mapped stays readable. Other backends may
// still read.
void Command::forget_brought()
{
    const std::string_view by = outside_ ? outside_->backend() : backend_->name();
    if (by == "kmod" || by == "user")
        brought_.reset();
}

// Whether the saved ids cannot be assigned here, and the user has not said whether
// new ones would do. An image from a pipe is read here and in the namespace;
// a bad one is not examined any further, because the restart reports why.
cryo::Result<bool> Command::needs_namespace()
{
    cryo::backend::RestartRequest &request = options_.request;
    const bool native =
        options_.backend == "auto" || options_.backend == "user" || options_.backend == "kmod";
    if (options_.ids_chosen || options_.pidns || !native || cryo::cli::has_requester() ||
        cryo::restore::may_choose_ids(options_.backend != "user"))
        return false;
    struct stat status = {};
    if (request.fd >= 0 && fstat(request.fd, &status) == 0 && !S_ISREG(status.st_mode)) {
        cryo::Result<Fd> kept = cryo::backend::keep_piped(request.fd);
        if (!kept)
            return kept.error().within(options_.image);
        kept_ = std::move(*kept);
        request.fd = kept_.get();
    }
    const auto image = cryo::backend::open_image(request, options_.image);
    return image && (*image)->maker().empty();
}

cryo::Result<cryo::backend::Alive> Command::restart_apart(const Listener &listener)
{
    const bool rehearse = options_.request.options.rehearse;
    if (kept_) {
        fcntl(kept_.get(), F_SETFD, 0);
        setenv(kept_variable, std::to_string(kept_.get()).c_str(), 1);
    }
    if (brought_)
        setenv(brought_variable, options_.image.c_str(), 1);
    cryo::Result<Outside> made = Outside::make(argv_, rehearse, !options_.pidns);
    unsetenv(kept_variable);
    unsetenv(brought_variable);
    if (!made)
        return made.error();
    kept_.reset();
    outside_ = std::move(*made);
    return rehearse ? outside_->await_rehearsed(listener) : outside_->await_alive(listener);
}

// The program is the requester's child; this command is done when the callbacks are.
int Command::report(const cryo::backend::Alive &alive)
{
    release_signals();
    if (const int failure = alive.await_callbacks(); failure != 0)
        return fail(callback_failure(options_.image, failure), alive.pid);
    cryo::cli::tell_requester(0, alive.pid);
    return options_.hooks.succeeded(alive.pid);
}

// On standard error: standard output is the program's.
void Command::tell(const cryo::backend::Alive &alive) const
{
    const bool runs = options_.request.options.then_signal == 0;
    const pid_t own = outside_ ? outside_->inner_pid() : alive.pid;
    const std::string here = own != alive.pid ? fmt::format(" ({} here)", alive.pid) : "";
    if (!options_.talk.quiet())
        options_.talk.notices(alive.notices);
    options_.talk.notices(alive.warnings);
    options_.talk.result(fmt::format("cr_restart: process {}{} {} after {} ({:.1f} MiB)", own, here,
                                     runs ? "goes on" : "is back", away(alive.cut_realtime),
                                     static_cast<double>(alive.bytes) / 1048576),
                         {{"image", options_.shown()},
                          {"backend", outside_ ? outside_->backend() : backend_->name()},
                          {"pid", alive.pid},
                          {"own_pid", own},
                          {"processes", alive.processes},
                          {"bytes", alive.bytes},
                          {"saved_at_ns", alive.cut_realtime}},
                         stderr);
}

// One line for the supervisor of cr_run, which waits for us as for the program.
// `keeper`: 0: there is none.
void Command::tell_supervisor(const cryo::backend::Alive &alive, pid_t keeper) const
{
    if (options_.supervisor < 0)
        return;
    const nlohmann::json said = {{"pid", alive.pid},
                                 {"own_pid", outside_ ? outside_->inner_pid() : alive.pid},
                                 {"saved_at_ns", alive.cut_realtime},
                                 {"keeper", keeper}};
    const std::string line = said.dump() + "\n";
    signal(SIGPIPE, SIG_IGN); // the supervisor may have been killed
    if (write(options_.supervisor, line.data(), line.size()) < 0)
        cryo::cli::say("cr_restart", "the supervisor has ended: the program goes on without it");
    close(options_.supervisor);
}

int Command::tell_rehearsed(const cryo::Result<cryo::backend::Alive> &alive)
{
    release_signals();
    if (!alive)
        return fail(alive.error().within("the rehearsal failed"));
    if (!options_.talk.quiet())
        options_.talk.notices(alive->notices);
    options_.talk.result(
        fmt::format("{}: comes back as it was saved: {}, {:.1f} MiB", options_.shown(),
                    cryo::cli::count_text(alive->processes, "process", "processes"),
                    static_cast<double>(alive->bytes) / 1048576),
        {{"image", options_.shown()},
         {"rehearsed", true},
         {"processes", alive->processes},
         {"bytes", alive->bytes}});
    return 0;
}

cryo::Result<End> Command::await_end(pid_t pid)
{
    if (outside_)
        return outside_->await_end();
    // As the first process of a container we are the parent of all orphans, too.
    const bool is_first = getpid() == 1;
    for (;;) {
        siginfo_t ended = {};
        if (waitid(is_first ? P_ALL : P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) !=
            0) {
            if (errno != EINTR)
                return cryo::Error::from_errno("waiting for the process", errno);
            continue;
        }
        if (is_first && ended.si_pid == pid)
            await_checkpointers(); // before its number, to which signals go, may be another's
        End end;
        if (waitpid(ended.si_pid, &end.wait_status, 0) == pid)
            return end;
    }
}

// For Prometheus. What cannot be counted is said, and stops no restart.
void Command::count(const cryo::Result<cryo::backend::Alive> &alive)
{
    const auto counter = cryo::metrics::CommandCount::from_environment("cr_restart");
    const cryo::Result<void> counted =
        counter ? counter->add({.good = static_cast<bool>(alive)}) : counter.error();
    if (!counted)
        cryo::cli::say("cr_restart", counted.error().text());
}

int Command::run()
{
    Listener listener = {options_.talk.remarks(),
                         options_.talk.phases(),
                         options_.talk.progress(options_.image),
                         {}};
    if (options_.heartbeat >= 0)
        add_heartbeat(listener, options_.heartbeat);
    if (options_.supervisor >= 0)
        fcntl(options_.supervisor, F_SETFD, FD_CLOEXEC);
    if (const cryo::Result<void> brought = bring(listener); !brought) {
        count(brought.error());
        return fail(brought.error());
    }
    hold_signals();
    // The agent finds it in the environment that the program is given.
    const std::string filter = cryo::capture::note_own_filters();
    const cryo::Result<bool> by_default = needs_namespace();
    cryo::Result<cryo::backend::Alive> alive = !by_default ? by_default.error()
                                               : options_.pidns || *by_default
                                                   ? restart_apart(listener)
                                                   : restart(listener);
    if (options_.request.options.rehearse)
        return tell_rehearsed(alive);
    count(alive);
    if (!alive)
        return fail(alive.error(), lost_);
    if (options_.request.options.for_requester)
        return report(*alive);
    const cryo::restore::RestartOptions &wanted = options_.request.options;
    forward_signals(alive->pid, wanted.daemons_apart && !wanted.restore_sid);
    if (outside_)
        outside_->let_stay();
    if (backend_) {
        if (cryo::Result<void> after = backend_->after_restart(*alive); !after)
            cryo::cli::say("cr_restart", after.error().text());
    }
    if (*by_default)
        alive->notices.emplace_back("choosing ids needs a privilege here, so the processes have "
                                    "their old ids in a pid namespace (--no-restore-pid gives "
                                    "them new ones)");
    if (!filter.empty())
        alive->notices.push_back("the program cannot be saved again: " + filter);
    forget_brought();
    tell(*alive);
    pid_t keeper = 0;
    if (options_.keeping.wanted()) {
        for (const std::string &notice : options_.keeping.notices)
            cryo::cli::say("cr_restart", notice);
        const cryo::Result<pid_t> launched = cryo::keeper::launch(options_.keeping, alive->pid);
        if (launched)
            keeper = *launched;
        else // the program is back, and goes on
            cryo::cli::say("cr_restart", "no automatic checkpoints: " + launched.error().text());
    }
    tell_supervisor(*alive, keeper);
    if (const int status = options_.hooks.succeeded(alive->pid); status != 0)
        return status;
    const cryo::Result<End> end = await_end(alive->pid);
    if (!end)
        return fail(end.error(), alive->pid);
    const int failure = outside_ ? end->failed_callback : alive->failure();
    if (failure != 0)
        return fail(callback_failure(options_.image, failure), alive->pid);
    return mimic(end->wait_status);
}

int Command::run(Inside &inside)
{
    const bool rehearse = options_.request.options.rehearse;
    if (rehearse)
        be_alone();
    const cryo::Result<cryo::backend::Alive> alive = restart(inside.listener());
    if (!alive) {
        inside.fail(alive.error());
        return 1;
    }
    if (rehearse) {
        inside.tell(*alive, backend_->name());
        return 0;
    }
    if (cryo::Result<void> after = backend_->after_restart(*alive); !after)
        cryo::cli::say("cr_restart", after.error().text());
    inside.stay(*alive, backend_->name());
}

} // namespace

// The first descriptor that is opened must not get the number of a standard descriptor that the
// caller has closed: the program would get it. Kept over execve, for the first process of a pid
// namespace.
static bool fill_standard_descriptors()
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}

static int run(int argc, char **argv)
{
    if (!fill_standard_descriptors())
        return cryo::cli::fail("cr_restart", cryo::Error::from_errno("/dev/null", errno));
    signal(SIGCHLD, SIG_DFL); // the caller may have it ignored: then no end could be waited for
    // Image data is read into pieces of some hundred KiB. malloc() would give each back
    // to the kernel, and get the next page by page: a third of a lazy restart's time.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_TOP_PAD, 1 << 20);

    std::optional<Inside> inside = Inside::find();
    CLI::App app("Brings saved processes back and waits for the first.", "cr_restart");
    Options options;
    add_options(app, options);
    cryo::cli::add_examples(
        app, {{"cr_restart context.412", "brings the process back, with its id"},
              {"cr_restart --no-restore-pid context.412", "brings it back with a new id"},
              {"cr_restart --rehearse context.412", "tests that it would come back"}});
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv)) {
        return *done != 0 ? options.hooks.failed(0, *done) : 0;
    }
    if (inside)
        options.keeping.interval.clear(); // whoever waits outside starts the keeper
    if (cryo::Result<void> good = complete(options); !good) {
        const int code = options.talk.fail(good.error());
        const bool usage = good.error().code() == EINVAL;
        return usage ? options.hooks.failed(0, cryo::cli::usage_exit)
                     : options.hooks.failed(good.error().code(), code);
    }
    if (inside) {
        if (const char *kept = cryo::sys::own_variable(kept_variable)) {
            options.request.fd = atoi(kept);
            fcntl(options.request.fd, F_SETFD, FD_CLOEXEC);
            unsetenv(kept_variable);
        }
        if (const char *brought = cryo::sys::own_variable(brought_variable)) {
            options.image = brought;
            unsetenv(brought_variable);
        }
        options.request.options.own_pid_namespace = true;
        if (options.teller < 0)
            options.request.trust->ask(inside->asker());
    }
    // The process outside of a pid namespace is in a user namespace itself, then.
    if (options.teller >= 0) {
        if (inside)
            fcntl(options.teller, F_SETFD, FD_CLOEXEC);
        options.request.trust->ask(
            [from = options.teller](int fd) { return cryo::ask_owner(from, fd); });
    }
    Command command(options, argv);
    if (inside)
        return command.run(*inside);
    if (const cryo::Result<void> fetched = command.fetch(); !fetched) {
        const int code = options.talk.fail(fetched.error());
        return options.hooks.failed(fetched.error().code(), code);
    }
    return command.run();
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_restart", [&] { return run(argc, argv); });
}
