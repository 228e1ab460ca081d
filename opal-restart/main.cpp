// SPDX-License-Identifier: Apache-2.0
// opal-restart: brings one rank back from its part of a global snapshot. ompi-restart has mpirun
// start it once for each rank; which one it is, the launcher says in the environment.
#include "cli/command.hpp"
#include "cli/legacy_options.hpp"
#include "coord/job.hpp"
#include "coord/leash.hpp"
#include "coord/local_level.hpp"
#include "coord/place.hpp"
#include "coord/snapshot.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using cryo::Directory;
using cryo::Error;
using cryo::Result;
using cryo::Trust;
using cryo::coord::NearCopy;

constexpr const char *command = "opal-restart";

Result<std::string> own_rank()
{
    for (const char *name :
         {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_ID", "SLURM_PROCID"}) {
        if (const char *value = cryo::sys::own_variable(name); value != nullptr && *value != 0)
            return std::string(value);
    }
    return Error(EINVAL, "no launcher says which rank this is (OMPI_COMM_WORLD_RANK, PMIX_RANK); "
                         "name the snapshot with -r");
}

// The copy of the image that this node has, if it is the right one; path "": there is none.
NearCopy copy_here(const Directory &rank, const std::string &metadata, const Trust &trust)
{
    const Result<std::optional<cryo::coord::LocalCopy>> copy =
        cryo::coord::read_local_copy(rank, metadata);
    if (!copy || !copy->has_value())
        return {};
    Result<NearCopy> found = cryo::coord::find_copy(**copy, trust);
    if (found)
        return std::move(*found);
    if (found.error().code() != ENOENT)
        cryo::cli::say(command, fmt::format("{}; the image in {} is used instead",
                                            found.error().text(), rank.path()));
    return {};
}

// The image that a local snapshot's metadata name: the node's own, or the one beside them.
Result<NearCopy> image_in(const std::string &location, const std::string &reference,
                          const std::string &metadata, const Trust &trust)
{
    const Result<Directory> all = Directory::open(location);
    if (!all)
        return all.error();
    const std::optional<uint32_t> number = cryo::coord::rank_of(reference);
    const Result<Directory> rank =
        number ? cryo::coord::enter_rank(*all, *number) : all->enter(reference);
    if (!rank)
        return rank.error();
    if (Result<void> good = cryo::coord::check_trust(*rank, metadata, trust); !good)
        return good.error();
    const Result<std::string> context = cryo::coord::read_context(*rank, metadata);
    if (!context)
        return context.error();
    NearCopy image = copy_here(*rank, metadata, trust);
    if (image.path.empty())
        image.path = rank->path(*context);
    return image;
}

// Starts the node's daemon, so that the restored rank finds it. Without a job there is none.
void start_daemon()
{
    const char *daemon = cryo::sys::own_variable("CRYO_DAEMON");
    if (daemon == nullptr || cryo::sys::own_variable(cryo::coord::job_variable) == nullptr)
        return;
    char *const words[] = {strdup(daemon), strdup("--node"), nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, daemon, nullptr, nullptr, words, environ) == 0) {
        while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
}

// In a supervised job: with the end of the node's daemon this process ends, and so does what it
// brings back. A node that was taken for lost would change files again that others have by now.
// No descriptor: the job is not supervised, or this is the supervisor's own node.
Result<cryo::Fd> take_leash()
{
    char path[PATH_MAX];
    if (!cryo::coord::is_fenced(environ))
        return cryo::Fd();
    if (!cryo::coord::node_socket(environ, path, sizeof(path)))
        return Error(ENAMETOOLONG, "CRYO_JOB is damaged, or makes a path that is too long");
    Result<cryo::Fd> socket = cryo::coord::connect_path(path);
    if (!socket)
        return socket.error().within("without the node's daemon nothing is brought back here");
    switch (cryo::coord::ask_for_leash(socket->get())) {
    case cryo::coord::Leash::not_needed:
        return cryo::Fd();
    case cryo::coord::Leash::given:
        if (cryo::coord::wear_leash(socket->get()) &&
            fcntl(socket->get(), F_SETFD, 0) == 0) // cr_restart has it, too
            return socket;
        break;
    case cryo::coord::Leash::refused:
        break;
    }
    return Error(EPIPE, fmt::format("{}: the node's daemon has ended", path));
}

void close_others(int leash)
{
    if (leash > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, static_cast<unsigned>(leash) - 1, 0);
    close_range(static_cast<unsigned>(std::max(leash, STDERR_FILENO)) + 1, ~0U, 0);
}

} // namespace

static int run(int argc, char **argv)
{
    CLI::App app("Brings one rank of an MPI job back; ompi-restart uses it.", command);
    std::string location;
    std::string metadata = "snapshot_meta.data";
    std::string reference;
    std::string cache;
    std::vector<std::string> owners;
    bool decompress = false;
    bool preload = false;
    int verbose = 0;
    app.add_option("-l,--location", location, "Directory of the ranks' snapshots")->required();
    app.add_option("-m,--metadata", metadata, "Name of the metadata file")->capture_default_str();
    app.add_option("-r,--reference", reference,
                   "The rank's snapshot (default: the one of the rank that the launcher names)");
    app.add_option("--owner", owners, "Accept a snapshot of this other user; may be repeated")
        ->type_name("USER")
        ->allow_extra_args(false);
    app.add_option("-c,--cache", cache, "Accepted for old scripts; has no effect");
    app.add_flag("-d,--decompress", decompress,
                 "Accepted for old scripts; an image itself tells how it is compressed");
    app.add_flag("-p,--preload", preload,
                 "Accepted for old scripts; images are read where they are");
    app.add_flag("-v,--verbose", verbose, "Print the phases");
    cryo::cli::add_examples(app, {{"opal-restart -l . -r opal_snapshot_412.ckpt",
                                   "brings the process back that opal-checkpoint has saved here"}});
    const cryo::legacy::Words words = cryo::legacy::normalise(
        argc, argv,
        {"location", "metadata", "reference", "cache", "decompress", "preload", "verbose", "help"});
    if (std::optional<int> done = cryo::cli::parse(app, words.words))
        return *done;
    if (reference.empty()) {
        const Result<std::string> rank = own_rank();
        if (!rank)
            return cryo::cli::fail(command, rank.error());
        reference =
            cryo::coord::rank_directory(static_cast<uint32_t>(strtoul(rank->c_str(), nullptr, 10)));
    }
    Trust trust;
    for (const std::string &owner : owners) {
        if (const Result<void> known = trust.add(owner); !known)
            return cryo::cli::fail(command, known.error());
    }
    const Result<NearCopy> image = image_in(location, reference, metadata, trust);
    if (!image)
        return cryo::cli::fail(command, image.error());
    start_daemon();
    const Result<cryo::Fd> leash = take_leash();
    if (!leash)
        return cryo::cli::fail(command, leash.error());
    // hydra and slurmstepd leave their own pipes and sockets open.
    if (getenv("PMI_ID") != nullptr || getenv("SLURM_STEP_ID") != nullptr)
        close_others(leash->get());

    std::error_code ignored;
    const std::string restart =
        std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "cr_restart";
    // Some of the old ids may be in use on this node.
    std::vector<const char *> arguments = {restart.c_str(), "--prefer-pid",
                                           "--no-restore-sid", // the launcher ends its group
                                           "--bound-to-parent", verbose > 0 ? "-v" : "-q"};
    for (const std::string &owner : owners)
        arguments.insert(arguments.end(), {"--owner", owner.c_str()});
    arguments.insert(arguments.end(), {image->path.c_str(), nullptr});
    execv(restart.c_str(), const_cast<char *const *>(arguments.data())); // NOLINT: execv's type
    return cryo::cli::fail(command, Error::from_errno(restart, errno));
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("opal-restart", [&] { return run(argc, argv); });
}
