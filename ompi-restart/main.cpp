// SPDX-License-Identifier: Apache-2.0
// ompi-restart, mpi-restart: brings an MPI job back from a global snapshot, under a fresh mpirun.
#include "images.hpp"
#include "info.hpp"
#include "launcher_line.hpp"
#include "options.hpp"
#include "shares.hpp"

#include "base/print.hpp"
#include "base/printable.hpp"
#include "cli/command.hpp"
#include "cli/legacy_options.hpp"
#include "coord/job.hpp"
#include "coord/launch.hpp"
#include "coord/snapshot.hpp"
#include "keeper/launch.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::coord::Placement;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotStore;
using nlohmann::json;

namespace {

[[noreturn]] void become(const std::vector<std::string> &words, const Options &options)
{
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str())); // NOLINT: execvp's type
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    cryo::cli::say(options.command, fmt::format("{}: {}; name the launcher with --mpirun",
                                                words.front(), strerror(error)));
    _exit(error == ENOENT ? 127 : 126);
}

// Automatic checkpoints continue beside the snapshot, unless told otherwise.
Result<void> keep(const SnapshotStore &store, Options &options)
{
    cryo::keeper::Settings &settings = options.keeping;
    if (!settings.wanted())
        return {};
    settings.mpi = true;
    std::error_code failed; // the keeper compares directories by their whole names
    const std::filesystem::path snapshot = std::filesystem::canonical(store.path(), failed);
    if (failed)
        return Error::from_errno(store.path(), failed.value());
    settings.image = snapshot;
    Result<void> good = cryo::keeper::complete(settings, snapshot.parent_path());
    for (const std::string &notice : settings.notices)
        cryo::cli::say(options.command, notice);
    if (!good)
        return good;
    const Result<pid_t> keeper = cryo::keeper::launch(settings, getpid());
    if (!keeper)
        return keeper.error();
    if (options.by.report >= 0) {
        const std::string line = json({{"keeper", *keeper}}).dump() + "\n";
        static_cast<void>(write(options.by.report, line.data(), line.size()) > 0);
    }
    return {};
}

// Does not come back, unless it fails.
int launch(const SnapshotStore &store, const Snapshot &snapshot, Options &options,
           const Placement *placement)
{
    if (options.fork) {
        const pid_t child = fork();
        if (child < 0)
            return cryo::cli::fail(options.command, Error::from_errno("fork", errno));
        if (child > 0) {
            cryo::print("{}\n", child);
            return 0;
        }
    }
    if (Result<void> kept = keep(store, options); !kept) {
        if (options.by.report < 0)
            return cryo::cli::fail(options.command, kept.error());
        // As cr_restart: the job comes back all the same.
        cryo::cli::say(options.command, "no automatic checkpoints: " + kept.error().text());
    }
    setenv(cryo::coord::versions_variable,
           std::filesystem::absolute(store.path()).parent_path().c_str(), 0);
    const Result<cryo::coord::Variables> variables = cryo::coord::start_job(getpid(), options.by);
    if (!variables) // EAGAIN: a supervisor does not take it for the snapshot's fault
        return cryo::cli::fail(options.command, options.by.report < 0
                                                    ? variables.error()
                                                    : Error(EAGAIN, variables.error().text()));
    unsetenv("LD_PRELOAD"); // what the ranks need, their images have
    cryo::coord::set_variables(*variables, launcher_of(snapshot, options));
    const std::vector<std::string> words = launcher_line(store, snapshot, options, placement);
    if (options.verbose > 0)
        cryo::cli::say(options.command, fmt::format("{}", fmt::join(words, " ")));
    become(words, options);
}

// What the program is told of (cryo_placement.h).
void publish(const Placement *placement)
{
    if (placement != nullptr)
        setenv(cryo::coord::weights_variable, cryo::coord::weights_by_rank(*placement).c_str(), 1);
    else
        unsetenv(cryo::coord::weights_variable);
}

int start(const SnapshotStore &store, const Snapshot &snapshot, const cryo::Trust &trust,
          Options &options)
{
    const Result<std::optional<Placement>> shares =
        shares_for(snapshot, options, launcher_of(snapshot, options));
    if (!shares)
        return cryo::cli::fail(options.command, shares.error());
    const Placement *placement = shares->has_value() ? &**shares : nullptr;
    if (options.dry_run) {
        show_placement(snapshot, *placement, options.as_json);
        return 0;
    }
    if (Result<void> whole = make_whole(store, snapshot, trust, options); !whole)
        return cryo::cli::fail(options.command, whole.error());
    if (options.heal)
        return 0;
    if (options.apponly) {
        const Result<std::string> file = write_appfile(store, snapshot, options);
        if (!file)
            return cryo::cli::fail(options.command, file.error());
        cryo::print("{}\n", printable(*file));
        return 0;
    }
    publish(placement);
    if (options.showme) {
        const std::vector<std::string> words = launcher_line(store, snapshot, options, placement);
        cryo::print("{}\n", printable(fmt::format("{}", fmt::join(words, " "))));
        return 0;
    }
    return launch(store, snapshot, options, placement);
}

Error no_snapshot(const SnapshotStore &store, int seq)
{
    return {ENOENT, seq < 0 ? fmt::format("{}: has no finished snapshot", store.path())
                            : fmt::format("{}: has no finished snapshot {}; --info lists them",
                                          store.path(), seq)};
}

int run(int argc, char **argv, Options &options)
{
    if (std::optional<int> done = parse(argc, argv, options))
        return *done;
    if (options.by.report >= 0)
        fcntl(options.by.report, F_SETFD, FD_CLOEXEC);
    const Result<SnapshotStore> store = find_store(options);
    if (!store)
        return cryo::cli::fail(
            options.command,
            store.error().code() == ENOTDIR
                ? store.error().with_more("; the image of a process is brought back by cr_restart")
                : store.error());
    if (options.info)
        return show_snapshots(*store, options.as_json);
    const Snapshot *snapshot = options.seq < 0 ? store->latest() : store->find(options.seq);
    if (snapshot == nullptr)
        return cryo::cli::fail(options.command, no_snapshot(*store, options.seq));
    const Result<cryo::Trust> trust = trust_of(options);
    if (!trust)
        return cryo::cli::fail(options.command, trust.error());
    // What is counted has no copies on nodes, so that there is nothing to bring of its ranks.
    return options.bring ? bring(*store, *snapshot, *trust, options)
                         : start(*store, store->with_ranks(*snapshot), *trust, options);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    return cryo::cli::whole(cryo::legacy::called(argv, options.command),
                            [&] { return run(argc, argv, options); });
}
