// SPDX-License-Identifier: Apache-2.0
// cr_restart: brings a saved process back, stays its parent, and ends as it ends.
#include "backend/backend.hpp"
#include "cli/command.hpp"
#include "cli/file_options.hpp"
#include "cli/place.hpp"
#include "cli/requester.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

namespace {

volatile sig_atomic_t child;

// What the terminal sends reaches the program without us: it is in our process group.
void forward(int signal, siginfo_t *info, void *)
{
    if (child > 0 && info->si_code != SI_KERNEL)
        kill(child, signal);
}

// Signals meant for the program reach it through us, its parent.
void forward_signals()
{
    for (int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, SIGALRM}) {
        struct sigaction action = {};
        action.sa_sigaction = forward;
        action.sa_flags = SA_RESTART | SA_SIGINFO;
        sigaction(signal, &action, nullptr);
    }
}

// Ends as the program ended: by the same code, or by the same signal.
int mimic(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    const int signal = WTERMSIG(status);
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none); // the program's own core is enough
    ::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(signal);
    return 128 + signal;
}

int fail_callback(const std::string &file, int failure, pid_t pid)
{
    return cryo::cli::fail("cr_restart",
                           cryo::Error(failure, fmt::format("{}: a callback of the program failed "
                                                            "after the restart; it has been killed",
                                                            file)),
                           pid);
}

// The program is the child of who asked for it; we are done when its callbacks are.
int report(const std::string &file, const cryo::restore::Restarted &alive)
{
    if (const int failure = alive.await_callbacks(); failure != 0)
        return fail_callback(file, failure, alive.pid);
    cryo::cli::tell_requester(0, alive.pid);
    return 0;
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

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("Brings a saved process back and waits for it.", "cr_restart");
    std::string file;
    std::string named;
    cryo::backend::RestartRequest request;
    bool no_pid = false;
    bool force = false;
    bool quiet = false;
    int verbose = 0;
    std::string backend = "auto";
    auto *positional = app.add_option("FILE", file, "The image");
    app.add_option("-f,--file", named, "The same")->excludes(positional);
    app.add_flag("--no-restore-pid,!--restore-pid", no_pid,
                 "Take new process and thread ids instead of the saved ones");
    app.add_option("--base", request.bases,
                   "An image that FILE is based on, if it does not lie beside it; may be repeated")
        ->allow_extra_args(false);
    app.add_flag("--force", force, "Accept mapped files that have changed");
    app.add_option("--backend", backend,
                   "Who restores: kmod (the kernel module), user (without it), auto (the best "
                   "there is), or a plug-in")
        ->capture_default_str();
    app.add_flag("-v,--verbose", verbose, "Tell the phases");
    app.add_flag("-q,--quiet", quiet, "Say nothing but errors");
    cryo::cli::add_file_options(app, request.options.files);
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    if (!named.empty())
        file = named;
    if (file.empty()) {
        fmt::print(stderr, "cr_restart: no image is named; try cr_restart --help\n");
        return cryo::cli::usage_exit;
    }

    request.options.restore_pid = !no_pid;
    request.options.force = force;
    request.options.for_requester = cryo::cli::has_requester();
    pid_t lost = 0;
    request.options.lost = &lost;
    request.library = cryo::cli::library("libcr_run.so");
    std::function<void(std::string_view)> say;
    if (verbose > 0)
        say = [](std::string_view text) { fmt::print(stderr, "cr_restart: {}\n", text); };
    cryo::Result<std::unique_ptr<cryo::backend::Backend>> chosen =
        cryo::backend::choose(backend, cryo::backend::Purpose::restart, say);
    if (!chosen)
        return cryo::cli::fail("cr_restart", chosen.error());
    (*chosen)->set_filename(file);
    const cryo::Result<cryo::backend::Alive> alive = (*chosen)->restart(request);
    if (!alive)
        return cryo::cli::fail("cr_restart", alive.error(), lost);
    if (request.options.for_requester)
        return report(file, *alive);
    child = alive->pid;
    forward_signals();
    if (cryo::Result<void> after = (*chosen)->after_restart(*alive); !after)
        fmt::print(stderr, "cr_restart: {}\n", after.error().text());
    if (!quiet) {
        for (const std::string &notice : alive->notices)
            fmt::print(stderr, "cr_restart: {}\n", notice);
        fmt::print(stderr, "cr_restart: process {} goes on after {} ({:.1f} MiB)\n", alive->pid,
                   away(alive->cut_realtime), static_cast<double>(alive->bytes) / 1048576);
    }
    int status = 0;
    while (waitpid(alive->pid, &status, 0) < 0) {
        if (errno != EINTR)
            return cryo::cli::fail("cr_restart",
                                   cryo::Error::from_errno("waiting for the process", errno));
    }
    if (const int failure = alive->failure(); failure != 0)
        return fail_callback(file, failure, alive->pid);
    return mimic(status);
}
