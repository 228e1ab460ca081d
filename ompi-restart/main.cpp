// SPDX-License-Identifier: Apache-2.0
// ompi-restart, mpi-restart: brings an MPI job back from a global snapshot, under a fresh mpirun.
#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/legacy_options.hpp"
#include "cli/text.hpp"
#include "coord/heal.hpp"
#include "coord/job.hpp"
#include "coord/launch.hpp"
#include "coord/launcher_options.hpp"
#include "coord/node_copies.hpp"
#include "coord/place.hpp"
#include "coord/snapshot.hpp"
#include "keeper/launch.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotStore;
using nlohmann::json;

const char *command = "ompi-restart";

struct Options {
    std::string handle;
    std::string where;
    int seq = -1;
    std::string hostfile;
    std::string mpirun;
    std::string mpirun_opts;
    std::string image_options;
    bool fork = false;
    bool info = false;
    bool heal = false;
    bool bring = false;
    bool apponly = false;
    bool showme = false;
    bool preload = false;
    bool fresh_options = false;
    bool as_json = false;
    std::vector<std::string>
        owners; // whose snapshots are restarted besides the caller's and root's
    int verbose = 0;
    cryo::coord::Supervision by; // of cr_run --recover
    cryo::keeper::Settings keeping;
};

Result<SnapshotStore> find(const Options &options)
{
    const bool is_path = options.handle.find('/') != std::string::npos;
    const std::string base = options.where.empty() ? cryo::coord::default_base() : options.where;
    std::error_code ignored;
    if (is_path || std::filesystem::is_directory(options.handle, ignored))
        return SnapshotStore::open(std::filesystem::absolute(options.handle, ignored));
    return SnapshotStore::open(base + "/" + options.handle);
}

int info(const SnapshotStore &store, const Options &options)
{
    json all = json::array();
    for (const auto &[seq, snapshot] : store.snapshots()) {
        if (!snapshot.finished)
            continue;
        const std::vector<std::string> command_line =
            cryo::coord::without_exports(snapshot.command);
        json images = json::array();
        for (const auto &image : snapshot.images) {
            images.push_back({{"rank", image.rank},
                              {"pid", image.pid},
                              {"node", image.node},
                              {"bytes", image.bytes},
                              {"file", store.image_path(snapshot, image)}});
            if (!image.local.empty())
                images.back().update({{"local", image.local}, {"checksum", image.checksum}});
        }
        all.push_back({{"seq", seq},
                       {"started", snapshot.started},
                       {"completed", snapshot.completed},
                       {"launcher", snapshot.launcher},
                       {"command", command_line},
                       {"directory", snapshot.directory},
                       {"images", images}});
        if (!snapshot.redundancy.empty()) {
            json sets = json::array();
            for (const cryo::coord::SnapshotSet &set : snapshot.sets)
                sets.push_back(set.nodes);
            all.back().update({{"redundancy", snapshot.redundancy}, {"sets", sets}});
        }
        if (options.as_json)
            continue;
        std::string words;
        for (const std::string &word : command_line)
            words += " " + word;
        cryo::print("Seq. {}: {}, {}, {}\n   {}\n", seq,
                    cryo::cli::count_text(snapshot.images.size(), "rank", "ranks"),
                    cryo::cli::size_text(snapshot.bytes()), printable(snapshot.completed),
                    printable(words));
        for (const auto &image : snapshot.images)
            cryo::print("    rank {:4}  pid {:7}  {}  {}{}\n", image.rank, image.pid,
                        cryo::cli::size_text(image.bytes), printable(image.node),
                        image.local.empty() ? "" : "  " + printable(image.local));
        for (const cryo::coord::SnapshotSet &set : snapshot.sets)
            cryo::print("    {} of the images on {}\n", printable(snapshot.redundancy),
                        printable(fmt::format("{}", fmt::join(set.nodes, ", "))));
    }
    if (options.as_json)
        cryo::print("{}\n", all.dump(-1, ' ', true, json::error_handler_t::replace));
    return 0;
}

// The path of a command beside this one.
std::string own_command(const std::string &name)
{
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
}

// As a shell would split them, but for variables: quotes and backslashes.
std::vector<std::string> split_words(const std::string &text)
{
    std::vector<std::string> words;
    std::string word;
    bool inside = false;
    char quote = 0;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            if (inside)
                words.push_back(std::exchange(word, {}));
            inside = false;
            continue;
        }
        inside = true;
        if (quote != 0 && c == quote)
            quote = 0;
        else if (quote == 0 && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < text.size())
            word += text[++i];
        else
            word += c;
    }
    if (inside)
        words.push_back(word);
    return words;
}

bool can_run(const std::string &program)
{
    return access(cryo::coord::whole_path(program).c_str(), X_OK) == 0;
}

std::string launcher_of(const Snapshot &snapshot, const Options &options)
{
    if (!options.mpirun.empty())
        return options.mpirun;
    if (const char *own = cryo::sys::own_variable("CRYO_MPIRUN"); own != nullptr && *own != 0)
        return own;
    const std::string name =
        snapshot.command.empty()
            ? ""
            : std::filesystem::path(snapshot.command.front()).filename().string();
    // mpirun of 5.0 becomes prterun, which does not exist where an earlier release is installed.
    if (name == "prterun" && !can_run(snapshot.command.front()))
        return can_run("mpirun.openmpi") ? "mpirun.openmpi" : "mpirun";
    return name.find("mpi") != std::string::npos || name.find("run") != std::string::npos
               ? snapshot.command.front()
               : "mpirun";
}

std::vector<std::string> rank_command(const SnapshotStore &store, const Snapshot &snapshot,
                                      const Options &options, int rank)
{
    std::vector<std::string> words = {own_command("opal-restart"), "-l",
                                      fmt::format("{}/{}", store.path(), snapshot.seq)};
    for (const std::string &owner : options.owners)
        words.insert(words.end(), {"--owner", owner});
    if (rank >= 0) {
        words.emplace_back("-r");
        words.push_back(cryo::coord::rank_directory(static_cast<uint32_t>(rank)));
    }
    return words;
}

// One line for each rank, as Open MPI's own command wrote it.
Result<std::string> write_appfile(const SnapshotStore &store, const Snapshot &snapshot,
                                  const Options &options)
{
    constexpr const char *name = "restart-appfile";
    std::string lines;
    for (const auto &image : snapshot.images)
        lines += fmt::format(
            "-np 1 {}\n",
            fmt::join(rank_command(store, snapshot, options, static_cast<int>(image.rank)), " "));
    if (Result<void> written = store.directory().write(name, lines); !written)
        return written.error();
    return store.directory().path(name);
}

// srun's option for how its ranks find it, without which there is no restart.
std::vector<std::string> kind_of_mpi(const std::vector<std::string> &words)
{
    for (size_t i = 0; i < words.size(); i++) {
        if (words[i].starts_with("--mpi="))
            return {words[i]};
        if (words[i] == "--mpi" && i + 1 < words.size())
            return {words[i], words[i + 1]};
    }
    return {};
}

// With which the job was started, and which mean the same to this launcher.
std::vector<std::string> options_of_job(const Snapshot &snapshot, const Options &options,
                                        const std::string &launcher,
                                        const std::vector<std::string> &given)
{
    const bool is_same =
        !snapshot.command.empty() &&
        cryo::coord::whole_path(launcher) == cryo::coord::whole_path(snapshot.command.front());
    if (options.fresh_options || !is_same) {
        const bool needs_kind = cryo::coord::is_srun(launcher) && kind_of_mpi(given).empty();
        return needs_kind ? kind_of_mpi(snapshot.command) : std::vector<std::string>();
    }
    cryo::coord::LauncherOptions of_job = cryo::coord::launcher_options(
        cryo::coord::without_exports(snapshot.command), snapshot.directory, given);
    if (!of_job.unknown.empty())
        cryo::cli::say(command,
                       fmt::format("the job was started with {} {}, which Cryo does not know: "
                                   "neither this nor what follows is given again; if it is needed, "
                                   "give it with --mpirun_opts",
                                   snapshot.command.front(), of_job.unknown));
    return std::move(of_job.words);
}

std::vector<std::string> mpirun_words(const SnapshotStore &store, const Snapshot &snapshot,
                                      const Options &options)
{
    std::vector<std::string> words = {launcher_of(snapshot, options)};
    std::vector<std::string> given = split_words(options.mpirun_opts);
    const bool is_srun = cryo::coord::is_srun(words.front());
    if (!options.hostfile.empty()) {
        given.emplace_back(is_srun ? "--nodelist" : "--hostfile");
        given.push_back(is_srun ? std::filesystem::absolute(options.hostfile).string()
                                : options.hostfile);
    }
    for (const std::string &word : options_of_job(snapshot, options, words.front(), given))
        words.push_back(word);
    words.insert(words.end(), given.begin(), given.end());
    // Ranks reach the launcher by an address, because a
    // descriptor would collide with those that the image holds.
    if (cryo::coord::is_hydra(words.front()))
        words.emplace_back("-pmi-port");
    const std::vector<std::string> exports = cryo::coord::export_options(words.front());
    words.insert(words.end(), exports.begin(), exports.end());
    words.emplace_back("-n");
    words.push_back(std::to_string(snapshot.images.size()));
    for (const std::string &word : rank_command(store, snapshot, options, -1))
        words.push_back(word);
    return words;
}

[[noreturn]] void become(const std::vector<std::string> &words)
{
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str())); // NOLINT: execvp's type
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    cryo::cli::say(command, fmt::format("{}: {}; name the launcher with --mpirun", words.front(),
                                        strerror(error)));
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
        cryo::cli::say(command, notice);
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

// What the snapshot's directory lacks is made again, if its nodes have what it takes.
Result<void> make_whole(const SnapshotStore &store, const Snapshot &snapshot,
                        const cryo::Trust &trust, const Options &options)
{
    Result<void> whole = store.check(snapshot, trust);
    if (!options.heal && (whole || options.showme || snapshot.local_images() == 0))
        return whole;
    std::vector<std::string> said;
    Result<void> healed = cryo::coord::heal(
        store, snapshot, trust,
        options.heal ? cryo::coord::Look::contents : cryo::coord::Look::sizes, said);
    for (const std::string &line : said)
        cryo::cli::say(command, line);
    if (!healed)
        return healed;
    return store.check(snapshot, trust);
}

// What this node has, for a restart elsewhere.
int bring(const SnapshotStore &store, const Snapshot &snapshot, const cryo::Trust &trust)
{
    char node[128];
    if (!cryo::coord::node_name(environ, node, sizeof(node)))
        return cryo::cli::fail(command, Error(ENAMETOOLONG, "the name of this node is too long"));
    const Result<size_t> count = cryo::coord::bring(store, snapshot, trust, node);
    if (!count)
        return cryo::cli::fail(command, count.error());
    cryo::print("{} of node {}\n", cryo::cli::count_text(*count, "image", "images"),
                printable(node));
    return 0;
}

int start(const SnapshotStore &store, const Snapshot &snapshot, Options &options)
{
    cryo::Trust trust;
    for (const std::string &owner : options.owners) {
        if (Result<void> known = trust.add(owner); !known)
            return cryo::cli::fail(command, known.error());
    }
    if (options.bring)
        return bring(store, snapshot, trust);
    if (Result<void> whole = make_whole(store, snapshot, trust, options); !whole)
        return cryo::cli::fail(command, whole.error());
    if (options.heal)
        return 0;
    if (options.apponly) {
        const Result<std::string> file = write_appfile(store, snapshot, options);
        if (!file)
            return cryo::cli::fail(command, file.error());
        cryo::print("{}\n", printable(*file));
        return 0;
    }
    if (options.showme) {
        cryo::print("{}\n", printable(fmt::format(
                                "{}", fmt::join(mpirun_words(store, snapshot, options), " "))));
        return 0;
    }
    if (options.fork) {
        const pid_t child = fork();
        if (child < 0)
            return cryo::cli::fail(command, Error::from_errno("fork", errno));
        if (child > 0) {
            cryo::print("{}\n", child);
            return 0;
        }
    }
    if (Result<void> kept = keep(store, options); !kept) {
        if (options.by.report < 0)
            return cryo::cli::fail(command, kept.error());
        // As cr_restart: the job comes back all the same.
        cryo::cli::say(command, "no automatic checkpoints: " + kept.error().text());
    }
    setenv(cryo::coord::versions_variable,
           std::filesystem::absolute(store.path()).parent_path().c_str(), 0);
    const Result<cryo::coord::Variables> variables = cryo::coord::start_job(getpid(), options.by);
    if (!variables) // EAGAIN: a supervisor does not take it for the snapshot's fault
        return cryo::cli::fail(command, options.by.report < 0
                                            ? variables.error()
                                            : Error(EAGAIN, variables.error().text()));
    unsetenv("LD_PRELOAD"); // what the ranks need, their images have
    cryo::coord::set_variables(*variables, launcher_of(snapshot, options));
    const std::vector<std::string> words = mpirun_words(store, snapshot, options);
    if (options.verbose > 0)
        cryo::cli::say(command, fmt::format("{}", fmt::join(words, " ")));
    become(words);
}

} // namespace

static int run(int argc, char **argv)
{
    CLI::App app("Brings an MPI job back from a global snapshot.", command);
    Options options;
    app.add_option("HANDLE", options.handle, "The snapshot's reference, or its directory")
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
    app.add_option("--hostfile,--machinefile", options.hostfile, "Passed on to mpirun");
    app.add_option("--mpirun", options.mpirun,
                   "The launcher (default: the one the job was started with)");
    app.add_option("--mpirun_opts", options.mpirun_opts, "More options for mpirun, as one word");
    app.add_flag("--fresh-options", options.fresh_options,
                 "Do not give mpirun the options again with which the job was started");
    for (CLI::Option *one : {app.add_option("--supervisor", options.by.report),
                             app.add_option("--series", options.by.series)})
        one->group(""); // used by cr_run --recover
    app.add_flag("--fork", options.fork, "Print the PID of mpirun and do not become it");
    app.add_flag("-i,--info", options.info, "Show what the snapshots contain; start nothing");
    app.add_flag("--heal", options.heal,
                 "Compare all images with their checksums, and make those that are missing or "
                 "damaged of what the nodes have; start nothing");
    app.add_flag("--bring", options.bring,
                 "Copy what this node has in its own directory to the snapshot's, for a restart or "
                 "--heal on a node that does not see it; start nothing");
    app.add_flag("-a,--apponly", options.apponly,
                 "Write the file for mpirun --app and print its name; start nothing");
    app.add_flag("--showme", options.showme, "Print the command line of mpirun; start nothing");
    app.add_flag("-p,--preload", options.preload,
                 "Accepted for old scripts; images are read where they are");
    app.add_flag("--json", options.as_json, "With --info: one JSON array");
    app.add_flag("-v,--verbose", options.verbose, "Print more");
    cryo::keeper::add_options(app, options.keeping);
    app.footer("-mca NAME VALUE and -gmca NAME VALUE are passed on to mpirun;\n"
               "snapc_base_global_snapshot_dir is --where.");
    cryo::cli::add_examples(
        app, {{fmt::format("{} ompi_global_snapshot_412.ckpt", command), "brings the job back"},
              {fmt::format("{} --info /pfs/job/context.ckpt", command), "shows what is saved"},
              {fmt::format("{} --hostfile nodes /pfs/job/context.ckpt", command),
               "brings it back on these nodes"}});
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

    if (options.by.report >= 0)
        fcntl(options.by.report, F_SETFD, FD_CLOEXEC);
    const Result<SnapshotStore> store = find(options);
    if (!store)
        return cryo::cli::fail(
            command,
            store.error().code() == ENOTDIR
                ? store.error().with_more("; the image of a process is brought back by cr_restart")
                : store.error());
    if (options.info)
        return info(*store, options);
    const Snapshot *snapshot = options.seq < 0 ? store->latest() : store->find(options.seq);
    if (snapshot == nullptr)
        return cryo::cli::fail(
            command,
            Error(ENOENT, options.seq < 0
                              ? fmt::format("{}: has no finished snapshot", store->path())
                              : fmt::format("{}: has no finished snapshot {}; --info lists them",
                                            store->path(), options.seq)));
    return start(*store, *snapshot, options);
}

int main(int argc, char **argv)
{
    command = cryo::legacy::called(argv, command);
    return cryo::cli::whole(command, [&] { return run(argc, argv); });
}
