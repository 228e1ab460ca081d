// SPDX-License-Identifier: Apache-2.0
// cr_restart: brings saved processes back, stays the parent of the first, and ends as it ends.
#include "backend/backend.hpp"
#include "cli/command.hpp"
#include "cli/place.hpp"
#include "cli/requester.hpp"
#include "forward.hpp"
#include "keeper/launch.hpp"
#include "options.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/wait.h>
#include <time.h>

namespace {

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

class Command
{
  public:
    explicit Command(Options &options) : options_(options) {}

    int run();

  private:
    cryo::Result<cryo::backend::Alive> restart();
    int report(const cryo::backend::Alive &alive);
    void tell(const cryo::backend::Alive &alive) const;
    int fail(const cryo::Error &error, pid_t pid = 0) const
    {
        const int code = options_.talk.fail(error, pid);
        options_.hooks.failed(error.code() != 0 ? error.code() : EIO);
        return code;
    }

    Options &options_;
    std::unique_ptr<cryo::backend::Backend> backend_;
    pid_t lost_ = 0;
};

cryo::Result<cryo::backend::Alive> Command::restart()
{
    cryo::backend::RestartRequest &request = options_.request;
    request.options.for_requester = cryo::cli::has_requester();
    request.options.lost = &lost_;
    request.library = cryo::cli::library("libcr_run.so");
    request.phase = options_.talk.phases();
    request.progress = options_.talk.progress(options_.image);
    cryo::Result<std::unique_ptr<cryo::backend::Backend>> chosen = cryo::backend::choose(
        options_.backend, cryo::backend::Purpose::restart, options_.talk.remarks());
    if (!chosen)
        return chosen.error();
    backend_ = std::move(*chosen);
    backend_->set_filename(options_.image);
    return backend_->restart(request);
}

// The program is the child of who asked for it; we are done when its callbacks are.
int Command::report(const cryo::backend::Alive &alive)
{
    if (const int failure = alive.await_callbacks(); failure != 0)
        return fail(callback_failure(options_.image, failure), alive.pid);
    cryo::cli::tell_requester(0, alive.pid);
    options_.hooks.succeeded(alive.pid);
    return 0;
}

// On standard error: standard output is the program's.
void Command::tell(const cryo::backend::Alive &alive) const
{
    const bool runs = options_.request.options.then_signal == 0;
    if (!options_.talk.quiet())
        options_.talk.notices(alive.notices);
    options_.talk.result(fmt::format("cr_restart: process {} {} after {} ({:.1f} MiB)", alive.pid,
                                     runs ? "goes on" : "is back", away(alive.cut_realtime),
                                     static_cast<double>(alive.bytes) / 1048576),
                         {{"image", options_.image},
                          {"backend", backend_->name()},
                          {"pid", alive.pid},
                          {"processes", alive.processes},
                          {"bytes", alive.bytes},
                          {"saved_at_ns", alive.cut_realtime}},
                         stderr);
}

int Command::run()
{
    const cryo::Result<cryo::backend::Alive> alive = restart();
    if (!alive)
        return fail(alive.error(), lost_);
    if (options_.request.options.for_requester)
        return report(*alive);
    forward_signals(alive->pid);
    if (cryo::Result<void> after = backend_->after_restart(*alive); !after)
        fmt::print(stderr, "cr_restart: {}\n", after.error().text());
    tell(*alive);
    if (options_.keeping.wanted()) {
        const cryo::Result<void> kept = cryo::keeper::launch(options_.keeping, alive->pid);
        if (!kept) // the program is back, and goes on
            fmt::print(stderr, "cr_restart: no automatic checkpoints: {}\n", kept.error().text());
    }
    options_.hooks.succeeded(alive->pid);
    int status = 0;
    while (waitpid(alive->pid, &status, 0) < 0) {
        if (errno != EINTR)
            return fail(cryo::Error::from_errno("waiting for the process", errno));
    }
    if (const int failure = alive->failure(); failure != 0)
        return fail(callback_failure(options_.image, failure), alive->pid);
    return mimic(status);
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("Brings saved processes back and waits for the first.", "cr_restart");
    Options options;
    add_options(app, options);
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv)) {
        if (*done != 0)
            options.hooks.failed(0);
        return *done;
    }
    if (cryo::Result<void> good = complete(options); !good) {
        const int code = options.talk.fail(good.error());
        const bool usage = good.error().code() == EINVAL;
        options.hooks.failed(usage ? 0 : good.error().code());
        return usage ? cryo::cli::usage_exit : code;
    }
    return Command(options).run();
}
