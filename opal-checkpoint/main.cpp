// SPDX-License-Identifier: Apache-2.0
// opal-checkpoint: saves one process into a local snapshot, as opal-restart reads it.
#include "backend/backend.hpp"
#include "base/print.hpp"
#include "base/printable.hpp"
#include "cli/command.hpp"
#include "cli/legacy_options.hpp"
#include "cli/number.hpp"
#include "coord/snapshot.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using cryo::Directory;
using cryo::Error;
using cryo::Result;

constexpr const char *command = "opal-checkpoint";

Result<void> check_free(const Directory &base, const std::string &name)
{
    const Result<std::optional<struct stat>> there = base.look(name);
    if (!there)
        return there.error();
    if (there->has_value())
        return Error(EEXIST, base.path(name) + ": is there; choose another --name");
    return {};
}

Result<void> save(int pid, const std::string &where, const std::string &name, bool terminate)
{
    std::error_code error;
    std::filesystem::create_directories(where, error);
    if (error)
        return Error::from_errno(where, error.value());
    const Result<Directory> base = Directory::open(where + "/.");
    if (!base)
        return base.error();
    if (Result<void> free = check_free(*base, name); !free)
        return free;
    // A name that is not in use and never was, so that nothing has to be removed first.
    std::string fresh = fmt::format("{}/.{}.XXXXXX", where, name);
    if (mkdtemp(fresh.data()) == nullptr)
        return Error::from_errno(fresh, errno);
    const Result<Directory> made = base->enter(cryo::split_path(fresh).second);
    if (!made)
        return made.error();
    cryo::capture::CheckpointOptions options;
    options.scope = cryo::image::Scope::tree;
    options.then_signal = terminate ? SIGTERM : 0;
    const cryo::coord::SnapshotImage image{.pid = pid, .file = cryo::coord::image_name(pid)};
    // Named before the image is taken: SIGTERM follows the image's own commit.
    Result<void> done = cryo::coord::write_local_metadata(*made, image);
    if (done) {
        Result<std::unique_ptr<cryo::backend::Backend>> chosen =
            cryo::backend::choose("auto", cryo::backend::Purpose::checkpoint, {});
        done = chosen ? Result<void>() : Result<void>(chosen.error());
        if (done) {
            (*chosen)->set_filename(fresh + "/" + image.file);
            done = (*chosen)->before_ckpt(pid, options);
        }
        if (done) {
            const Result<cryo::capture::Outcome> outcome = (*chosen)->do_ckpt();
            done = outcome ? Result<void>() : Result<void>(outcome.error());
        }
    }
    if (done)
        done = base->rename(cryo::split_path(fresh).second, name);
    if (!done) {
        made->clear();
        rmdir(fresh.c_str());
    }
    return done;
}

} // namespace

static int run(int argc, char **argv)
{
    CLI::App app("Saves a process that runs under cr_run into a local snapshot.", command);
    int pid = 0;
    int verbose = 0;
    bool quiet = false;
    bool terminate = false;
    std::string name;
    std::string where = ".";
    app.add_option("PID", pid, "The process")->required()->transform(cryo::cli::above_zero());
    app.add_flag("--term", terminate, "End the process by SIGTERM when it is saved");
    app.add_option("-n,--name", name, "The snapshot's name (default: opal_snapshot_PID.ckpt)");
    app.add_option("-w,--where", where, "Directory for it")->capture_default_str();
    app.add_flag("-v,--verbose", verbose, "Accepted for old scripts");
    app.add_flag("-q,--quiet", quiet, "Print only errors");
    cryo::cli::add_examples(
        app, {{"opal-checkpoint 412", "saves process 412 into opal_snapshot_412.ckpt"},
              {"opal-checkpoint --term 412", "saves it, then ends it"}});
    const cryo::legacy::Words words =
        cryo::legacy::normalise(argc, argv, {"term", "name", "where", "verbose", "quiet", "help"});
    if (std::optional<int> done = cryo::cli::parse(app, words.words))
        return *done;
    if (name.empty())
        name = fmt::format("opal_snapshot_{}.ckpt", pid);
    if (const Result<void> saved = save(pid, where, name, terminate); !saved)
        return cryo::cli::fail(command, saved.error());
    if (!quiet)
        cryo::print("Local Snapshot Reference = {}\n", cryo::printable(name));
    return 0;
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("opal-checkpoint", [&] { return run(argc, argv); });
}
