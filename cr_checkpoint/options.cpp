// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "cli/file_options.hpp"
#include "cli/handle.hpp"
#include "cli/number.hpp"
#include "cli/signal_options.hpp"
#include "rehearsal.hpp"
#include "second.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <sys/stat.h>

namespace {

using cryo::capture::Ptraced;
using cryo::image::Existing;
using cryo::image::Scope;

void add_scope(CLI::App &app, Options &options)
{
    options.capture.scope = Scope::tree;
    const struct {
        const char *name;
        Scope scope;
        const char *help;
    } table[] = {
        {"-T,--tree", Scope::tree, "The process ID with its living descendants (default)"},
        {"-p,--pid", Scope::process, "The process alone"},
        {"-g,--pgid", Scope::group, "ID is a process group: all its members"},
        {"-s,--sid", Scope::session, "ID is a session: all its members"},
    };
    auto *group = app.add_option_group("Which processes are meant");
    for (const auto &[name, scope, help] : table)
        group->add_flag_callback(
            name, [&options, chosen = scope] { options.capture.scope = chosen; }, help);
    group->require_option(0, 1);
}

void add_destination(CLI::App &app, Options &options)
{
    auto *group = app.add_option_group("Where the image goes");
    group->add_flag("-c,--cwd", options.cwd, "context.ID in the working directory (default)");
    group->add_option("-f,--file", options.file, "This file");
    group->add_option("-F,--fd", options.fd, "This open descriptor, which may be a pipe")
        ->transform(cryo::cli::open_descriptor());
    group->add_option("-d,--dir", options.directory,
                      "This directory: context.PID for each process, and an index");
    group->require_option(0, 1);
    app.add_option("--second", options.second,
                   "When the image is complete, and while the program goes on, send it to a server "
                   "(cr_server) as well, cryo://HOST[:PORT]/NAME, or into an object store "
                   "(cr_store), s3://BUCKET/NAME")
        ->type_name("URL");
}

// A number: how many are kept; else the name.
void take_backup(Options &options, const std::string &text)
{
    cryo::image::Backup &backup = options.capture.backup;
    backup = {};
    options.capture.existing = Existing::backup;
    options.may_write_into = false;
    if (text == "true") // as the parser writes a flag without a value
        return;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), backup.keep);
    if (error == std::errc() && end == text.data() + text.size() && backup.keep > 0)
        return;
    backup = {text, 0};
}

void add_replacement(CLI::App &app, Options &options)
{
    constexpr const char *group = "When there is an image of that name (the last one counts)";
    options.capture.existing = Existing::replace;
    const auto policy = [&](const char *name, Existing existing, bool into, const char *help) {
        app.add_flag_callback(
               name,
               [&options, existing, into] {
                   options.capture.existing = existing;
                   options.capture.backup = {};
                   options.may_write_into = into;
               },
               help)
            ->trigger_on_parse()
            ->group(group);
    };
    policy("--atomic", Existing::replace, false,
           "Replace it, when the new one is complete (default)");
    app.add_flag(
           "--backup", options.backup,
           "As --atomic, and keep the old one as .~1~, .~2~, ...; --backup=N: only the newest N; "
           "--backup=NAME: as NAME")
        ->each([&options](const std::string &text) { take_backup(options, text); })
        ->trigger_on_parse()
        ->group(group);
    policy("--clobber", Existing::replace, true,
           "As --atomic, and write into a target that is no regular file");
    policy("--noclobber", Existing::refuse, false, "Refuse");
}

void add_traced(CLI::App &app, Options &options)
{
    constexpr const char *group = "Processes that are traced (by a debugger), or trace";
    const struct {
        const char *name;
        Ptraced what;
        const char *help;
    } table[] = {
        {"--ptraced-error", Ptraced::error, "A traced one is an error (default)"},
        {"--ptraced-skip", Ptraced::skip, "It is left out"},
        {"--ptraced-allow", Ptraced::allow, "It is saved as any other"},
    };
    cryo::capture::CheckpointOptions &capture = options.capture;
    for (const auto &[name, what, help] : table) {
        app.add_flag_callback(
               name, [&capture, chosen = what] { capture.ptraced = chosen; }, help)
            ->trigger_on_parse()
            ->group(group);
    }
    app.add_flag_callback(
           "--ptracer-error", [&capture] { capture.ptracer_skip = false; },
           "One that traces others is an error (default)")
        ->trigger_on_parse()
        ->group(group);
    app.add_flag_callback(
           "--ptracer-skip", [&capture] { capture.ptracer_skip = true; }, "It is left out")
        ->trigger_on_parse()
        ->group(group);
}

// Set by libcr for a program that calls cr_request_checkpoint().
void add_requester(CLI::App &app, cryo::capture::CheckpointOptions &capture)
{
    app.add_option("--requester", capture.requester)->group("");
    app.add_flag("--without-requester", capture.without_requester)->group("");
    app.add_flag("--in-callback", capture.in_callback)->group("");
}

cryo::capture::Snapshot snapshot_of(std::string_view word)
{
    using cryo::capture::Snapshot;
    return word == "fork"     ? Snapshot::fork
           : word == "staged" ? Snapshot::staged
           : word == "stop"   ? Snapshot::stop
                              : Snapshot::automatic;
}

// Unless it handles the signal otherwise.
bool ends_program(int signal)
{
    constexpr int ending[] = {SIGKILL, SIGTERM, SIGABRT, SIGINT, SIGQUIT, SIGHUP};
    return std::ranges::find(ending, signal) != std::end(ending);
}

} // namespace

void add_options(CLI::App &app, Options &options)
{
    app.add_option("ID", options.id, "The process, process group or session")
        ->required()
        ->transform(cryo::cli::above_zero());
    add_scope(app, options);
    add_destination(app, options);
    add_replacement(app, options);
    cryo::cli::add_signal_options(app, options.capture.then_signal, "when the image is complete");
    app.add_flag("--nosync,!--sync", options.nosync,
                 "Do not wait until the image is on the disk; with --sync, callbacks wait, too")
        ->each([&options](const std::string &text) {
            options.capture.callbacks_wait = text == "false";
        });
    app.add_flag("--attach", options.attach,
                 "Save also what was not started under cr_run: first put Cryo's agent into each "
                 "such program, as a debugger would, while it runs");
    app.add_flag("--rehearse", options.rehearse,
                 "Test the image before it gets its name: restore it beside the program, in "
                 "namespaces of its own, and compare. If they differ, the image is discarded, and "
                 "the program gets no signal");
    cryo::cli::add_contents_options(app, options.capture.files);
    app.add_option(
           "--snapshot", options.snapshot,
           "auto: what stops the program for the shortest time; fork: a frozen copy of it "
           "is written; staged: what has changed is copied in the stop (with --delta); stop: "
           "the program waits until all is written")
        ->check(CLI::IsMember({"auto", "fork", "staged", "stop"}))
        ->capture_default_str();
    cryo::cli::add_common_options(app, options.common, cryo::cli::Command::checkpoint);
    app.add_option("--base", options.capture.delta.previous,
                   "The image of the checkpoint before, for --delta (default: the newest one of "
                   "the process that lies beside the new one)");
    app.add_option("--stage-memory", options.capture.delta.stage_memory,
                   "How much may be copied while the program stands still, for --delta, instead of "
                   "making a copy of it (default: a tenth of its memory, 16MiB at least; 0: "
                   "nothing)")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("-t,--time", options.capture.timeout_s,
                   "Give up after so many seconds; the program goes on")
        ->type_name("SECONDS")
        ->transform(cryo::cli::above_zero());
    app.add_option("--stall", options.capture.stall_s,
                   "How long the program stands still while this command makes no progress, "
                   "because the disk is slow or the command is stopped, and how long the command "
                   "waits for an answer of the program")
        ->type_name("SECONDS")
        ->transform(cryo::cli::above_zero())
        ->capture_default_str();
    options.capture.retry_s = 2;
    app.add_option(
           "--retry", options.capture.retry_s,
           "If the obstacles may pass by themselves, such as a connection that nobody has accepted "
           "yet, let the program go on and try again, for so many seconds; 0: never")
        ->type_name("SECONDS")
        ->transform(cryo::cli::zero_or_more())
        ->capture_default_str();
    add_traced(app, options);
    add_requester(app, options.capture);
    cryo::cli::add_handle_option(app, options.handle);
    options.talk.add_options(app);
    cryo::cli::add_file_options(app, options.capture.files);
}

namespace {

// A restart must run as the program's user, so only that user can rehearse it.
cryo::Result<void> complete_rehearsal(Options &options)
{
    if (options.capture.fd >= 0)
        return cryo::Error(EINVAL, fmt::format("--rehearse: {} cannot be withdrawn; save to a "
                                               "file or a directory",
                                               options.capture.file));
    if (options.common.backend != "auto" && options.common.backend != "user" &&
        options.common.backend != "kmod")
        return cryo::Error(EINVAL, fmt::format("--rehearse: what the backend {} has saved cannot "
                                               "be rehearsed",
                                               options.common.backend));
    options.capture.rehearse = [&options](const std::string &place,
                                          const std::function<void()> &alive) {
        constexpr unsigned calm = 6; // a rehearsal that does not stop the program may take longer
        return rehearse(place, options.capture.file, options.capture.stall_s * calm, options.teller,
                        alive);
    };
    return {};
}

} // namespace

cryo::Result<void> complete(Options &options)
{
    cryo::capture::CheckpointOptions &capture = options.capture;
    if (options.attach && (options.common.backend == "criu" || options.common.backend == "self"))
        return cryo::Error(EINVAL, fmt::format("--attach: the backend {} has no use for an agent",
                                               options.common.backend));
    capture.snapshot = snapshot_of(options.snapshot);
    capture.sync = !options.nosync;
    capture.files.ends_program = ends_program(capture.then_signal);
    capture.directory = !options.directory.empty();
    capture.fd = options.fd;
    capture.file = capture.directory       ? options.directory
                   : options.fd >= 0       ? fmt::format("descriptor {}", options.fd)
                   : !options.file.empty() ? options.file
                                           : fmt::format("context.{}", options.id);
    if (options.common.delta == "none" && !capture.delta.previous.empty())
        options.common.delta = "auto";
    if (options.common.delta == "auto")
        capture.delta.mode = cryo::image::DeltaMode::adaptive;
    else if (options.common.delta == "incremental")
        capture.delta.mode = cryo::image::DeltaMode::incremental;
    else if (options.common.delta == "differential")
        capture.delta.mode = cryo::image::DeltaMode::differential;
    // A delta cannot be mapped by a lazy restart anyway.
    capture.pack_small = options.common.compress.empty();
    if (options.common.compress.empty())
        options.common.compress = capture.delta.mode ? "auto" : "none";
    capture.packing = cryo::image::packing_of(options.common.compress);
    struct stat status;
    if (options.may_write_into && !capture.directory && capture.fd < 0 &&
        stat(capture.file.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
        !S_ISDIR(status.st_mode)) {
        capture.fd = open(capture.file.c_str(), O_WRONLY | O_CLOEXEC);
        if (capture.fd < 0)
            return cryo::Error::from_errno(capture.file, errno);
    }
    if (cryo::Result<void> good = complete_second(options); !good)
        return good;
    return options.rehearse ? complete_rehearsal(options) : cryo::Result<void>();
}
