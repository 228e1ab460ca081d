// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "cli/command.hpp"
#include "cli/legacy_options.hpp"
#include "cli/stored.hpp"
#include "elsewhere/job_place.hpp"
#include "keeper/launch.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>

using cryo::Result;
using cryo::coord::SnapshotStore;
using cryo::elsewhere::JobPlace;

namespace {

void add_places(CLI::App &app, Options &options)
{
    auto *hostfile =
        app.add_option("--hostfile,--machinefile", options.hostfile, "Passed on to mpirun");
    auto *hosts =
        app.add_option("--hosts", options.hosts,
                       "The hosts for mpirun, each with a number of ranks (n1:4,n9:4), in "
                       "place of those that the job was started with");
    hosts->excludes(hostfile);
    auto *weights = app.add_option(
        "--weights", options.weights,
        "Shares of nodes in the ranks: a=7,b=3 places 7 of 10 on a and 3 on b; as few images as "
        "possible move");
    weights->type_name("NODE=N,...")->excludes(hostfile)->excludes(hosts);
    auto *file = app.add_option("--weights-file", options.weights_file,
                                "The same, in a file with NODE=N on each line");
    file->type_name("FILE")->excludes(weights)->excludes(hostfile)->excludes(hosts);
    app.add_flag("--fetch", options.fetch,
                 "Before the launcher starts, have the nodes bring what the snapshot's directory "
                 "lacks (see --bring); with --weights this is so without it");
}

void add_launching(CLI::App &app, Options &options)
{
    app.add_option("--mpirun", options.mpirun,
                   "The launcher (default: the one the job was started with)");
    app.add_option("--mpirun_opts", options.mpirun_opts, "More options for mpirun, as one word");
    app.add_flag("--fresh-options", options.fresh_options,
                 "Do not give mpirun the options again with which the job was started");
    for (CLI::Option *one : {app.add_option("--supervisor", options.by.report),
                             app.add_option("--series", options.by.series)})
        one->group(""); // used by cr_run --recover
    app.add_flag("--fork", options.fork, "Print the PID of mpirun and do not become it");
}

void add_other_work(CLI::App &app, Options &options)
{
    app.add_flag("-i,--info", options.info, "Show what the snapshots contain; start nothing");
    app.add_flag("--heal", options.heal,
                 "Compare all images with their checksums, and make those that are missing or "
                 "damaged of what the nodes have; start nothing");
    app.add_flag("--bring", options.bring,
                 "Copy what this node has in its own directory to the snapshot's, for a restart or "
                 "--heal on a node that does not see it; start nothing");
    app.add_flag("-a,--apponly", options.apponly,
                 "Write the file for mpirun --app and print its name; start nothing")
        ->excludes("--weights")
        ->excludes("--weights-file");
    app.add_flag("--showme", options.showme, "Print the command line of mpirun; start nothing");
    app.add_flag("--dry-run", options.dry_run,
                 "With --weights: print which rank gets which node, and which images move; start "
                 "nothing");
}

void add_options(CLI::App &app, Options &options)
{
    app.add_option("HANDLE", options.handle,
                   "The snapshot's reference, its directory, or s3://BUCKET/NAME")
        ->required();
    app.add_option("-s,--seq", options.seq, "Which of its snapshots; -1: the latest")
        ->capture_default_str();
    app.add_option(
        "--where", options.where,
        "Directory in which references are looked for (default: see ompi-checkpoint --where)");
    app.add_option("--owner", options.owners,
                   "Accept a snapshot of this other user, whose programs will run with your "
                   "rights; may be repeated")
        ->type_name("USER")
        ->allow_extra_args(false);
    add_places(app, options);
    add_launching(app, options);
    add_other_work(app, options);
    app.add_flag("-p,--preload", options.preload,
                 "Accepted for old scripts; images are read where they are");
    app.add_flag("--json", options.as_json, "With --info or --dry-run: as JSON");
    app.add_flag("-v,--verbose", options.verbose, "Print more");
    cryo::keeper::add_options(app, options.keeping);
    app.footer("-mca NAME VALUE and -gmca NAME VALUE are passed on to mpirun;\n"
               "snapc_base_global_snapshot_dir is --where.");
    cryo::cli::add_examples(
        app,
        {{fmt::format("{} ompi_global_snapshot_412.ckpt", options.command), "brings the job back"},
         {fmt::format("{} --info /pfs/job/context.ckpt", options.command), "shows what is saved"},
         {fmt::format("{} --hostfile nodes /pfs/job/context.ckpt", options.command),
          "brings it back on these nodes"},
         {fmt::format("{} --weights n1=2,n2=1 /pfs/job/context.ckpt", options.command),
          "two thirds of the ranks on n1"}});
}

} // namespace

std::optional<int> parse(int argc, char **argv, Options &options)
{
    options.command = cryo::legacy::called(argv, options.command);
    CLI::App app("Brings an MPI job back from a global snapshot.", options.command);
    add_options(app, options);
    const cryo::legacy::Words words =
        cryo::legacy::normalise(argc, argv,
                                {"fork", "seq", "hostfile", "machinefile", "info", "apponly",
                                 "showme", "mpirun_opts", "preload", "verbose", "help"});
    if (std::optional<int> done = cryo::cli::parse(app, words.words))
        return *done;
    for (const auto &[name, value] : words.parameters) {
        if (name == "snapc_base_global_snapshot_dir" && options.where.empty())
            options.where = value;
        else
            options.mpirun_opts += fmt::format(" --mca {} '{}'", name, value);
    }
    if (options.dry_run && !options.has_weights()) {
        cryo::cli::say(options.command, "--dry-run shows what --weights decides; the launcher's "
                                        "command line is shown by --showme");
        return cryo::cli::usage_exit;
    }
    return std::nullopt;
}

namespace {

// All nodes need it, so it is kept in the directory of snapshots.
Result<std::string> bring_job(const Options &options, const std::string &base)
{
    const bool is_stored = cryo::cli::is_stored(options.handle);
    if (options.info || options.heal || options.bring)
        return cryo::Error(
            EINVAL,
            fmt::format("{}: is only started from; {} shows what is there{}", options.handle,
                        is_stored ? "`cr_store list`" : "`cr_server --list`",
                        is_stored ? ", and `cr_store pull` brings it for other work" : ""));
    const Result<JobPlace> place = JobPlace::parse(options.handle);
    if (!place)
        return place.error();
    std::error_code failed; // it may be what was lost
    std::filesystem::create_directories(base, failed);
    if (failed)
        return cryo::Error::from_errno(base, failed.value());
    const std::string directory = base + place->text().substr(place->text().rfind('/'));
    Result<std::string> brought = place->pull(directory);
    if (!brought && brought.error().code() == EEXIST)
        return brought.error().with_more(
            fmt::format("; if it is this snapshot, `{} {}` starts it", options.command, directory));
    if (brought)
        cryo::cli::say(options.command, fmt::format("{}: is in {} now, from where the job starts",
                                                    options.handle, *brought));
    return brought;
}

} // namespace

Result<SnapshotStore> find_store(const Options &options)
{
    const bool is_path = options.handle.find('/') != std::string::npos;
    const std::string base = options.where.empty() ? cryo::coord::default_base() : options.where;
    std::error_code ignored;
    if (JobPlace::is_meant(options.handle)) {
        const Result<std::string> brought = bring_job(options, base);
        return brought ? SnapshotStore::open(*brought) : brought.error();
    }
    if (is_path || std::filesystem::is_directory(options.handle, ignored))
        return SnapshotStore::open(std::filesystem::absolute(options.handle, ignored));
    return SnapshotStore::open(base + "/" + options.handle);
}

Result<cryo::Trust> trust_of(const Options &options)
{
    cryo::Trust trust;
    for (const std::string &owner : options.owners) {
        if (Result<void> known = trust.add(owner); !known)
            return known.error();
    }
    return trust;
}
