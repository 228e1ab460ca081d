// SPDX-License-Identifier: Apache-2.0
// ompi-checkpoint, mpi-checkpoint: saves a running MPI job into a global snapshot.
#include "base/path.hpp"
#include "base/print.hpp"
#include "base/printable.hpp"
#include "cli/command.hpp"
#include "cli/error_json.hpp"
#include "cli/file_options.hpp"
#include "cli/handle.hpp"
#include "cli/legacy_options.hpp"
#include "cli/number.hpp"
#include "cli/text.hpp"
#include "coord/client.hpp"
#include "coord/image_options.hpp"
#include "coord/parameters.hpp"
#include "coord/snapshot.hpp"
#include "count.hpp"
#include "list.hpp"
#include "second.hpp"
#include "sets.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <time.h>
#include <unistd.h>

namespace {

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::coord::Client;
using cryo::elsewhere::JobPlace;
using nlohmann::json;

const char *command = "ompi-checkpoint";

struct Options {
    int pid = 0;
    int hnp_pid = 0;
    int hnp_jobid = 0;
    int handle = -1; // of the process, if the caller has one
    int verbose = 0;
    bool terminate = false;
    bool stop = false;
    bool go_on = false;
    bool nowait = false;
    bool status = false;
    bool list = false;
    bool as_json = false;
    std::string where;
    std::string reference;
    std::string snapshot = "fork";
    int64_t patience = 600;
    unsigned keep = 0;
    std::string local; // a directory of each node, for its ranks' images
    unsigned keep_local = 1;
    unsigned copy_rate = 0; // MiB a second
    std::string redundancy; // of the images on their nodes; "": none
    std::string racks;      // a file
    std::string until = "shared";
    std::string second;              // another place of the snapshots: a URL
    cryo::coord::ImageOptions image; // without `backend`: what the job's parameters say
};

volatile sig_atomic_t interrupts;

void on_interrupt(int)
{
    interrupts = interrupts + 1;
}

// What a person or a script sees while the checkpoint is made.
class Progress
{
  public:
    explicit Progress(const Options &options)
        : options_(options), line_(!options.as_json && !options.status && isatty(STDERR_FILENO))
    {}
    ~Progress() { clear(); }
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void tell(const json &message)
    {
        const std::string type = message.value("type", "");
        if (options_.as_json)
            cryo::print("{}\n", message.dump(-1, ' ', true, json::error_handler_t::replace));
        else if (type == "state")
            state(message.value("state", ""));
        else if (type == "missing")
            missing(message);
        else if (type == "images")
            images(message);
        else if (type == "second")
            show(fmt::format("sending, {} of {}",
                             cryo::cli::size_text(message.value("done", uint64_t(0))),
                             cryo::cli::size_text(message.value("of", uint64_t(0)))));
        fflush(stdout);
    }

  private:
    void state(const std::string &name)
    {
        if (options_.status || options_.verbose > 0) {
            const time_t now = time(nullptr);
            char at[16] = {};
            tm local = {};
            strftime(at, sizeof(at), "%H:%M:%S", localtime_r(&now, &local));
            cryo::print("[{}] {}\n", at, printable(name));
        } else {
            show(name);
        }
    }
    void missing(const json &message)
    {
        const std::string text =
            printable(fmt::format("{}{}", message.value("text", ""),
                                  message.value("node", "").empty()
                                      ? ""
                                      : fmt::format(" (node {})", message.value("node", ""))));
        if (options_.status || options_.verbose > 0)
            cryo::print("    not stopped yet: {}\n", text);
        else
            show(fmt::format("waiting: {}", text));
    }
    void images(const json &message)
    {
        const std::string text =
            fmt::format("{} of {} ranks frozen, {} images written", message.value("cut", 0),
                        message.value("of", 0), message.value("done", 0));
        if (options_.verbose > 0)
            cryo::print("    {}\n", text);
        else
            show(text);
    }
    void show(const std::string &text)
    {
        if (!line_)
            return;
        shown_ = true;
        cryo::print(stderr, "\r{}: {}\033[K", command, printable(text));
        fflush(stderr);
    }
    void clear()
    {
        if (shown_)
            cryo::print(stderr, "\r\033[K");
        shown_ = false;
    }

    const Options &options_;
    bool line_;
    bool shown_ = false;
};

// Takes what the command line leaves open from the job's own parameters.
void complete(Options &options, int pid)
{
    cryo::coord::Parameters of_job;
    if (const Result<cryo::coord::Variables> variables = cryo::coord::variables_of(pid))
        of_job = cryo::coord::parameters_of(*variables);
    if (options.where.empty())
        options.where = of_job.directory.empty() ? cryo::coord::default_base() : of_job.directory;
    std::string &backend = options.image.common.backend;
    if (backend.empty())
        backend = of_job.backend.empty() ? "auto" : of_job.backend;
    if (options.local.empty())
        options.local = of_job.local;
    if (options.redundancy.empty() && !options.local.empty())
        options.redundancy = of_job.redundancy;
    options.image.fork = options.snapshot == "fork";
}

// Of another user's job the directory may be what that user's environment names: there the job's
// daemon makes it, with that user's rights, and root nothing.
Result<void> make_base(Options &options, bool own)
{
    std::error_code error;
    options.where = std::filesystem::absolute(options.where, error).lexically_normal();
    if (!error && !cryo::is_utf8(options.where))
        return Error(EILSEQ, options.where + ": is not UTF-8; choose another --where directory");
    if (!error && own)
        std::filesystem::create_directories(options.where, error);
    if (error)
        return Error::from_errno(options.where, error.value());
    return {};
}

// On this node it need not exist: each node has its own.
Result<void> complete_local(Options &options)
{
    const char *without = options.until == "local"                           ? "--until local"
                          : options.keep_local != 1                          ? "--keep-local"
                          : options.copy_rate != 0 && options.second.empty() ? "--copy-rate"
                          : !options.redundancy.empty()                      ? "--redundancy"
                                                                             : nullptr;
    if (options.local.empty() && without != nullptr)
        return Error(EINVAL, fmt::format("{}: name a directory of the nodes (--local)", without));
    if (options.local.empty())
        return {};
    options.local = cryo::absolute_path(options.local);
    if (!cryo::is_utf8(options.local))
        return Error(EILSEQ, options.local + ": is not UTF-8; choose another --local directory");
    return {};
}

json request(const Options &options)
{
    json message = to_json(options.image);
    message.update({{"type", "checkpoint"},
                    {"directory", options.where},
                    {"after", options.terminate ? "term"
                              : options.stop    ? "stop"
                                                : "none"},
                    {"keep", options.keep},
                    {"patience", options.patience},
                    {"follow", options.status}});
    if (!options.reference.empty())
        message["reference"] = options.reference;
    if (!options.local.empty())
        message.update({{"local", options.local},
                        {"keep_local", options.keep_local},
                        {"copy_rate", uint64_t(options.copy_rate) << 20}});
    return message;
}

// The command does it: the job goes on, or has ended.
Result<void> send_second(const Options &options, const JobPlace &place, json &end,
                         Progress &progress)
{
    json &said = end["second"];
    said = {{"place", place.text()}};
    const auto reference = end.value("reference", std::string());
    const auto tell = [&](uint64_t done, uint64_t total) {
        progress.tell({{"type", "second"}, {"done", done}, {"of", total}});
    };
    const Result<std::vector<std::string>> sent =
        place.push(fmt::format("{}/{}", options.where, reference),
                   {.rate = uint64_t(options.copy_rate) << 20, .progress = at_most_percents(tell)});
    if (!sent) {
        said["error"] = cryo::cli::error_json(sent.error());
        return sent.error().within(fmt::format("{} {} is complete, but not its copy at {}",
                                               reference, end.value("seq", 0), place.text()));
    }
    for (const std::string &notice : *sent)
        end["notices"].push_back(notice);
    return {};
}

void print_end(const Options &options, const json &end)
{
    if (options.as_json) {
        cryo::print("{}\n", end.dump(-1, ' ', true, json::error_handler_t::replace));
        return;
    }
    for (const json &notice : end.value("notices", json::array()))
        cryo::cli::say(command, notice.get<std::string>());
    cryo::print("Snapshot Ref.: {:3} {}\n", end.value("seq", 0),
                printable(end.value("reference", "")));
    const auto needs = end.value("needs", std::vector<int>());
    if (options.verbose > 0)
        cryo::print("{}: {}, {}{}; stood still for at most {}, done in {:.3f} s\n",
                    printable(end.value("path", "")),
                    cryo::cli::count_text(end.value("ranks", uint64_t(0)), "rank", "ranks"),
                    cryo::cli::size_text(end.value("bytes", uint64_t(0))),
                    needs.empty() ? "" : fmt::format(", needs {}", fmt::join(needs, ", ")),
                    cryo::cli::duration_text(end.value("longest_stop_ns", uint64_t(0))),
                    end.value("seconds", 0.0));
}

// The first ^C cancels the checkpoint, and waits for that; the second one ends this command.
void take_interrupts()
{
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
    sigset_t blocked; // but while the client waits: else one that comes in between would be missed
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

void interrupted(Client &job)
{
    if (interrupts > 0) // if the daemon has ended, the next read reports it
        static_cast<void>(job.send({{"type", "cancel"}}));
}

Result<json> converse(Client &job, Progress &progress)
{
    take_interrupts();
    return job.until_end([&](const json &message) { progress.tell(message); },
                         [&] { interrupted(job); });
}

// With --nowait the daemon has accepted the request, so that a refusal is seen; with --until local
// all images are on their nodes.
bool is_far_enough(const Options &options, const std::string &state)
{
    if (options.nowait)
        return state != "requested";
    return state != "requested" && state != "pending" && state != "running" && state != "error";
}

Result<void> until_far_enough(const Options &options, Client &job, Progress &progress)
{
    if (!options.nowait)
        take_interrupts();
    for (;;) {
        const Result<json> message = job.next();
        if (!message && message.error().code() == EINTR && !options.nowait) {
            interrupted(job);
            continue;
        }
        if (!message)
            return message.error();
        const std::string type = message->value("type", "");
        if (type == "end" && !message->value("ok", false))
            return Error(message->value("code", EIO), message->value("error", ""));
        progress.tell(*message);
        const std::string state = message->value("state", "");
        if (type == "state" && is_far_enough(options, state))
            return {};
    }
}

int run(Options &options)
{
    if (options.list)
        return list_snapshots(command,
                              options.where.empty() ? cryo::coord::default_base() : options.where,
                              options.as_json);
    const int pid = options.pid != 0 ? options.pid : options.hnp_pid;
    if (pid == 0) {
        cryo::print(stderr, "{}: the PID of mpirun is missing; try {} --help\n", command, command);
        return cryo::cli::usage_exit;
    }
    Result<Client> job = Client::to(pid);
    if (!job)
        return cryo::cli::fail(command, job.error());
    if (Result<void> same = cryo::cli::check_handle(options.handle, pid); !same)
        return cryo::cli::fail(command, same.error());
    job->limit(options.patience);
    if (options.go_on) {
        if (Result<void> sent = job->send({{"type", "continue"}}); !sent)
            return cryo::cli::fail(command, sent.error());
        const Result<json> end = job->until_end([](const json &) {}, [] {});
        return end ? 0 : cryo::cli::fail(command, end.error());
    }
    complete(options, pid);
    if (Result<void> known = complete_local(options); !known)
        return cryo::cli::fail(command, known.error());
    if (Result<void> made = make_base(options, job->is_own()); !made)
        return cryo::cli::fail(command, made.error());
    if (!options.second.empty() && (options.nowait || options.until == "local"))
        return cryo::cli::fail(command, Error(EINVAL, "--second: this command sends the snapshot "
                                                      "when it is there, and so has to wait"));
    const Result<std::optional<JobPlace>> second = second_place(options.second, options.terminate);
    if (!second)
        return cryo::cli::fail(command, second.error());
    const Result<json> sets = sets_for(options.redundancy, options.racks);
    if (!sets)
        return cryo::cli::fail(command, sets.error());
    json wanted = request(options);
    wanted.update(*sets);
    if (Result<void> sent = job->send(wanted); !sent)
        return cryo::cli::fail(command, sent.error());
    std::optional<Progress> progress;
    progress.emplace(options);
    if (options.nowait || options.until == "local") {
        const Result<void> accepted = until_far_enough(options, *job, *progress);
        progress.reset();
        return accepted ? 0 : cryo::cli::fail(command, accepted.error());
    }
    Result<json> end = converse(*job, *progress);
    count(command, end);
    Result<void> sent;
    if (end && *second)
        sent = send_second(options, **second, *end, *progress);
    progress.reset();
    if (!end)
        return cryo::cli::fail(command, end.error());
    print_end(options, *end);
    return sent ? 0 : cryo::cli::fail(command, sent.error());
}

} // namespace

static int run(int argc, char **argv)
{
    CLI::App app("Saves a running MPI job, which was started as `cr_run mpirun ...`.", command);
    Options options;
    app.add_option("PID", options.pid, "The process id of mpirun")
        ->transform(cryo::cli::above_zero());
    app.add_option("--hnp-pid", options.hnp_pid, "The process id of mpirun, as an option")
        ->transform(cryo::cli::above_zero());
    app.add_option("--hnp-jobid", options.hnp_jobid, "Accepted for old scripts; has no effect");
    auto *after = app.add_option_group("after", "What happens to the job after the checkpoint");
    after->add_flag("--term", options.terminate, "End the job by SIGTERM to mpirun");
    after->add_flag("--stop", options.stop, "Stop the ranks (SIGSTOP); --cont continues");
    after->require_option(0, 1);
    app.add_flag("--cont", options.go_on, "Continue a job that --stop has stopped");
    app.add_flag("-w,--nowait", options.nowait, "Do not wait until the snapshot is there");
    app.add_flag(
        "-s,--status", options.status,
        "Print the states, and the ranks that have not stopped yet; follow a checkpoint that is "
        "under way");
    app.add_flag("-l,--list", options.list, "List the snapshots that there are");
    app.add_option("--where", options.where,
                   "Directory for the snapshot, seen by all nodes (default: the job's, or else the "
                   "home directory)");
    app.add_option("--name", options.reference,
                   "The snapshot's reference (default: ompi_global_snapshot_PID.ckpt)");
    app.add_option("--keep", options.keep, "Of this job's snapshots only the last N remain")
        ->transform(cryo::cli::above_zero());
    app.add_option("--local", options.local,
                   "Directory of each node, to which its ranks' images are written first, and from "
                   "which they are copied to the snapshot (default: the job's, or none)");
    app.add_option("--keep-local", options.keep_local,
                   "Of this job's snapshots the last N remain on the nodes, too")
        ->transform(cryo::cli::above_zero())
        ->capture_default_str();
    app.add_option("--copy-rate", options.copy_rate,
                   "Each node copies at most so many MiB a second from there, and this command "
                   "for --second; 0: no limit")
        ->transform(cryo::cli::zero_or_more())
        ->capture_default_str();
    app.add_option("--redundancy", options.redundancy,
                   "What nodes keep of each other's images there, so that those of a lost node can "
                   "be made again: partner, xor, or rs:M for M lost nodes (default: nothing)");
    app.add_option("--racks", options.racks,
                   "File that says which nodes may be lost together, so that they get into "
                   "different sets");
    app.add_option("--second", options.second,
                   "When the snapshot is there, and while the job goes on, send the job's "
                   "snapshots to a server (cr_server), cryo://HOST[:PORT]/NAME, or into an object "
                   "store (cr_store), s3://BUCKET/NAME")
        ->type_name("URL");
    app.add_option("--until", options.until,
                   "Wait until the snapshot is there (shared), or all images are on their nodes")
        ->check(CLI::IsMember({"local", "shared"}))
        ->capture_default_str();
    app.add_option("-t,--time", options.patience,
                   "Give up when not all ranks have stopped within so many seconds; 0: never")
        ->transform(cryo::cli::zero_or_more())
        ->capture_default_str();
    app.add_option("--snapshot", options.snapshot,
                   "fork: ranks go on while frozen copies are written; stop: they wait")
        ->check(CLI::IsMember({"fork", "stop"}))
        ->capture_default_str();
    cryo::cli::add_common_options(app, options.image.common, cryo::cli::Command::job);
    cryo::cli::add_contents_options(app, options.image.files);
    cryo::cli::add_handle_option(app, options.handle);
    app.add_flag("--json", options.as_json, "One JSON object a line instead of text");
    int level = 0;
    app.add_option("-V", level, "Accepted for old scripts, as --verbose");
    app.add_flag("-v,--verbose", options.verbose, "Print more");
    app.footer("-mca NAME VALUE is accepted; snapc_base_global_snapshot_dir is --where.");
    cryo::cli::add_examples(
        app, {{fmt::format("{} 412", command), "saves the job whose mpirun is process 412"},
              {fmt::format("{} --term --where /pfs/job 412", command),
               "saves it there, then ends the job"},
              {fmt::format("{} --list --where /pfs/job", command), "shows the snapshots there"}});
    const cryo::legacy::Words words = cryo::legacy::normalise(
        argc, argv,
        {"hnp-pid", "hnp-jobid", "term", "stop", "nowait", "status", "list", "verbose", "help"});
    if (std::optional<int> done = cryo::cli::parse(app, words.words))
        return *done;
    for (const auto &[name, value] : words.parameters) {
        if (name == "snapc_base_global_snapshot_dir" && options.where.empty())
            options.where = value;
    }
    if (options.reference.find('/') != std::string::npos) {
        cryo::cli::say(command, fmt::format("--name {}: is a path; the directory goes to --where",
                                            options.reference));
        return cryo::cli::usage_exit;
    }
    return run(options);
}

int main(int argc, char **argv)
{
    command = cryo::legacy::called(argv, command);
    return cryo::cli::whole(command, [&] { return run(argc, argv); });
}
