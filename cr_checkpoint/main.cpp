// SPDX-License-Identifier: Apache-2.0
// cr_checkpoint: saves a running process into a file.
#include "backend/backend.hpp"
#include "cli/command.hpp"
#include "cli/file_options.hpp"
#include "cli/requester.hpp"

#include <csignal>
#include <fmt/format.h>

namespace {

double seconds(uint64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("Saves a process that runs under cr_run. It goes on unless told otherwise.",
                 "cr_checkpoint");
    int pid = 0;
    std::string file;
    std::string snapshot = "fork";
    std::string compress = "none";
    std::string delta = "none";
    bool clobber = false;
    bool nosync = false;
    bool terminate = false;
    bool kill_it = false;
    bool stop_it = false;
    bool pid_scope = false;
    bool tree_scope = false;
    bool group_scope = false;
    bool session_scope = false;
    int verbose = 0;
    std::string backend = "auto";
    bool quiet = false;
    app.add_option("PID", pid, "The process")->required()->check(CLI::PositiveNumber);
    auto *scope = app.add_option_group("scope", "Which processes are meant");
    scope->add_flag("-T,--tree", tree_scope, "The process with its living descendants (default)");
    scope->add_flag("-p,--pid", pid_scope, "The process alone");
    scope->add_flag("-g,--pgid", group_scope, "PID is a process group: all its members");
    scope->add_flag("-s,--sid", session_scope, "PID is a session: all its members");
    scope->require_option(0, 1);
    app.add_option("-f,--file", file, "Where the image goes (default: context.PID)");
    app.add_option("--snapshot", snapshot,
                   "fork: the program goes on while a frozen copy is written; stop: it waits")
        ->check(CLI::IsMember({"fork", "stop"}))
        ->capture_default_str();
    app.add_option("--compress", compress, "How pages are stored: none or auto")
        ->check(CLI::IsMember({"none", "auto"}))
        ->capture_default_str();
    cryo::capture::CheckpointOptions options;
    app.add_flag("--delta{auto}", delta,
                 "Leave out pages that an earlier image has: auto, incremental (as in the image "
                 "before), differential (as in the first), none")
        ->check(CLI::IsMember({"auto", "incremental", "differential", "none"}));
    app.add_option("--base", options.delta.previous,
                   "The image of the checkpoint before, for --delta (default: the newest one of "
                   "the process that lies beside the new one)");
    app.add_flag("--clobber,!--noclobber", clobber, "Replace an existing image, atomically");
    app.add_flag("--nosync,!--sync", nosync, "Do not wait until the image is on the disk");
    app.add_flag("--save-exe", options.files.save_exe, "Save every page of the program file");
    app.add_flag("--save-private", options.files.save_private,
                 "Save every page of files that are mapped privately (libraries)");
    app.add_flag("--save-shared", options.files.save_shared,
                 "Save the contents of files that are mapped shared; a restart rolls them back");
    app.add_flag_callback(
        "--save-all",
        [&options] {
            options.files.save_exe = options.files.save_private = options.files.save_shared = true;
        },
        "All of these");
    app.add_flag_callback(
        "--save-none",
        [&options] {
            options.files.save_exe = options.files.save_private = options.files.save_shared = false;
        },
        "None of these (the default)");
    auto *after = app.add_option_group("after", "What happens to the program then");
    after->add_flag("--term", terminate, "SIGTERM");
    after->add_flag("--kill", kill_it, "SIGKILL");
    after->add_flag("--stop", stop_it, "SIGSTOP");
    after->require_option(0, 1);
    app.add_option("--backend", backend,
                   "Who saves: kmod (the kernel module), user (without it), auto (the best there "
                   "is), or a plug-in")
        ->capture_default_str();
    app.add_flag("-v,--verbose", verbose, "Tell the phases");
    app.add_flag("-q,--quiet", quiet, "Say nothing but errors");
    cryo::cli::add_file_options(app, options.files);
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;

    // While we are stopped by the terminal the program would stand still as well.
    for (int signal : {SIGTSTP, SIGTTIN, SIGTTOU})
        ::signal(signal, SIG_IGN);

    if (file.empty())
        file = fmt::format("context.{}", pid);
    options.scope = pid_scope       ? cryo::image::Scope::process
                    : group_scope   ? cryo::image::Scope::group
                    : session_scope ? cryo::image::Scope::session
                                    : cryo::image::Scope::tree;
    options.snapshot =
        snapshot == "fork" ? cryo::capture::Snapshot::fork : cryo::capture::Snapshot::stop;
    options.packing =
        compress == "auto" ? cryo::image::Packing::automatic : cryo::image::Packing::raw;
    if (delta == "none" && !options.delta.previous.empty())
        delta = "auto";
    if (delta == "auto")
        options.delta.mode = cryo::image::DeltaMode::adaptive;
    else if (delta == "incremental")
        options.delta.mode = cryo::image::DeltaMode::incremental;
    else if (delta == "differential")
        options.delta.mode = cryo::image::DeltaMode::differential;
    options.replace = clobber;
    options.sync = !nosync;
    options.then_signal = kill_it ? SIGKILL : terminate ? SIGTERM : stop_it ? SIGSTOP : 0;
    if (verbose > 0)
        options.phase = [](std::string_view name) {
            fmt::print(stderr, "cr_checkpoint: {}\n", name);
        };
    cryo::Result<std::unique_ptr<cryo::backend::Backend>> chosen =
        cryo::backend::choose(backend, cryo::backend::Purpose::checkpoint, options.phase);
    if (!chosen)
        return cryo::cli::fail("cr_checkpoint", chosen.error());
    (*chosen)->set_filename(file);
    if (cryo::Result<void> ready = (*chosen)->before_ckpt(pid, options); !ready)
        return cryo::cli::fail("cr_checkpoint", ready.error());
    const cryo::Result<cryo::capture::Outcome> done = (*chosen)->do_ckpt();
    if (!done)
        return cryo::cli::fail("cr_checkpoint", done.error());
    cryo::cli::tell_requester(0, 0);
    for (const std::string &notice : done->notices)
        fmt::print(stderr, "cr_checkpoint: {}\n", notice);
    if (!quiet)
        fmt::print("{}: {} threads, {:.1f} MiB; stood still for {:.1f} ms, done in {:.3f} s\n",
                   file, done->threads, static_cast<double>(done->image.size) / 1048576,
                   seconds(done->stopped_ns) * 1e3, seconds(done->total_ns));
    return 0;
}
