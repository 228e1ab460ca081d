// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "cli/file_options.hpp"
#include "cli/number.hpp"
#include "cli/requester.hpp"
#include "cli/signal_options.hpp"
#include "cli/stored.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

namespace {

void add_source(CLI::App &app, Options &options)
{
    constexpr const char *group = "Where the image is (one of these)";
    app.add_option(
        "FILE", options.positional,
        "The image: a file, a directory, cryo://HOST[:PORT]/NAME at a server (cr_server), "
        "or s3://BUCKET/NAME");
    app.add_option("-f,--file", options.file, "The same")->group(group);
    app.add_option("-F,--fd", options.request.fd, "This open descriptor, which may be a pipe")
        ->transform(cryo::cli::open_descriptor())
        ->group(group);
    app.add_option("-d,--dir", options.directory, "This directory")->group(group);
}

void add_ids(CLI::App &app, Options &options)
{
    constexpr const char *group = "Ids";
    cryo::restore::RestartOptions &restart = options.request.options;
    app.add_flag("--restore-pid,!--no-restore-pid", restart.restore_pid,
                 "Processes and threads have their saved ids, or new ones (default: the saved "
                 "ones, in a pid namespace as with --pidns where nothing else allows that)")
        ->each([&](const std::string &) { options.ids_chosen = true; })
        ->group(group);
    app.add_flag("--prefer-pid", restart.prefer_pid,
                 "Processes and threads have their saved ids where these are free and may be "
                 "chosen, and new ones otherwise")
        ->group(group);
    app.add_flag("--pidns", options.pidns,
                 "Processes have their saved ids in a pid namespace of their own, where every id "
                 "is free; no privilege is needed")
        ->group(group);
    app.add_flag("--restore-pgid,!--no-restore-pgid", restart.restore_pgid,
                 "Process groups have their saved ids, or the first process is in that of "
                 "cr_restart (default; not of a daemon, see --restore-sid)")
        ->each([&](const std::string &said) {
            restart.daemons_apart = restart.daemons_apart && said == "true";
        })
        ->group(group);
    app.add_flag("--restore-sid,!--no-restore-sid", restart.restore_sid,
                 "The first process has its saved session, or is in that of cr_restart (default: "
                 "its own, where it led one without a terminal, as daemons do)")
        ->each([&](const std::string &) { restart.daemons_apart = false; })
        ->group(group);
}

// Not used here: cr_checkpoint reads them from the command line of a cr_restart that it finds.
void add_omission(CLI::App &app, Options &options)
{
    constexpr const char *group = "Later checkpoints that would include this cr_restart";
    app.add_flag("--omit-maybe", options.omit,
                 "Leave it out, unless it runs under cr_run itself (default)")
        ->group(group);
    app.add_flag("--omit-always", options.omit, "Leave it out")->group(group);
    app.add_flag("--omit-never", options.omit, "Do not leave it out")->group(group);
}

void add_hooks(CLI::App &app, Hooks &hooks)
{
    constexpr const char *group = "Shell commands to run after the restart";
    for (const auto &[name, command, help] : hooks.list()) {
        app.add_option(name, *command, help)
            ->type_name("COMMAND")
            ->trigger_on_parse() // they are meant for wrong usage, too
            ->group(group);
    }
}

// Automatic checkpoints continue the series that the image belongs to.
cryo::Result<void> complete_keeping(Options &options)
{
    namespace fs = std::filesystem;
    const bool is_no_file = options.request.fd >= 0 || options.url || !options.stored.empty();
    if (is_no_file && options.keeping.directory.empty())
        return cryo::Error(EINVAL, "--interval: with an image that is no file, --into is needed");
    if (options.url) // the series is continued where that is the second place
        options.keeping.image = options.url->text();
    else if (!options.stored.empty())
        options.keeping.image = options.stored;
    if (is_no_file) // images of it are nowhere: a new series begins
        return cryo::keeper::complete(options.keeping, options.keeping.directory);
    std::error_code error;
    const fs::path image = fs::canonical(options.image, error);
    if (error)
        return cryo::Error::from_errno(options.image, error.value());
    options.keeping.image = image;
    const fs::path beside = image.parent_path();
    return cryo::keeper::complete(options.keeping, fs::exists(beside / "keeper.json", error)
                                                       ? beside.string()
                                                       : image.string() + ".d");
}

} // namespace

void add_options(CLI::App &app, Options &options)
{
    add_hooks(app, options.hooks);
    add_source(app, options);
    cryo::cli::add_signal_options(app, options.request.options.then_signal, "before they go on");
    add_ids(app, options);
    add_omission(app, options);
    app.add_option("--base", options.request.bases,
                   "An image that FILE is based on, if it does not lie beside it; may be repeated")
        ->allow_extra_args(false);
    app.add_option("--owner", options.owners,
                   "Accept an image of this other user, whose program will run with your rights; "
                   "may be repeated")
        ->type_name("USER")
        ->allow_extra_args(false);
    app.add_flag("--lazy,!--eager", options.request.options.lazy,
                 "Map memory from the image, unverified, to be ready at once; or read it all "
                 "(default)");
    app.add_flag("--rehearse", options.request.options.rehearse,
                 "Restore the processes in namespaces of their own, compare them with the image "
                 "before any of them runs, and end them again");
    app.add_option("--heartbeat", options.heartbeat)->group("");   // used by cr_checkpoint
    app.add_option("--supervisor", options.supervisor)->group(""); // used by cr_run --recover
    app.add_option("--owner-teller", options.teller)->group("");   // likewise
    app.add_flag("--bound-to-parent", options.request.options.bound_to_parent)
        ->group(""); // used by opal-restart
    app.add_flag("--force", options.request.options.force, "Accept mapped files that have changed");
    app.add_flag("--other-surroundings", options.request.options.other_surroundings,
                 "Accept that here are fewer filters of system calls (seccomp) than the program's "
                 "surroundings have put on it, or some that let more pass");
    app.add_option(
           "--backend", options.backend,
           "The backend that restores: kmod (the kernel module), user (without it), auto (the one "
           "that made the image, or the best one available), criu, self, or a plug-in")
        ->capture_default_str();
    cryo::keeper::add_options(app, options.keeping);
    options.talk.add_options(app);
    cryo::cli::add_file_options(app, options.request.options.files);
}

namespace {

cryo::Result<void> complete_rehearsal(Options &options)
{
    const cryo::restore::RestartOptions &restart = options.request.options;
    const char *against = !restart.restore_pid         ? "--no-restore-pid"
                          : restart.then_signal != 0   ? "a signal"
                          : options.keeping.wanted()   ? "--interval"
                          : cryo::cli::has_requester() ? "a program that asks for it"
                                                       : nullptr;
    if (against != nullptr)
        return cryo::Error(EINVAL, fmt::format("--rehearse cannot be combined with {}", against));
    if (options.backend != "auto" && options.backend != "user")
        return cryo::Error(EINVAL, fmt::format("--rehearse is done by the backend user, not by {}",
                                               options.backend));
    options.backend = "user";
    options.pidns = true;
    return {};
}

// An image at a server.
cryo::Result<void> complete_url(Options &options)
{
    if (cryo::server::scheme_of(options.image) != cryo::server::url_scheme)
        return {};
    const cryo::Result<cryo::server::Url> url = cryo::server::Url::parse(options.image);
    if (!url)
        return url.error();
    if (url->image.name.empty())
        return cryo::Error(EINVAL, options.image + ": names no image");
    options.url = *url;
    return {};
}

} // namespace

cryo::Result<void> complete(Options &options)
{
    std::string named;
    int count = options.request.fd >= 0 ? 1 : 0;
    if (count != 0)
        named = fmt::format("descriptor {}", options.request.fd);
    for (const std::string *one : {&options.positional, &options.file, &options.directory}) {
        if (one->empty())
            continue;
        count++;
        named = *one;
    }
    if (count != 1)
        return cryo::Error(EINVAL, count == 0 ? "no image is named; try cr_restart --help"
                                              : "more than one image is named");
    struct stat status;
    if (!options.directory.empty() && stat(named.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
        return cryo::Error(ENOTDIR, named + ": is no directory");
    if (options.request.options.rehearse) {
        if (cryo::Result<void> good = complete_rehearsal(options); !good)
            return good;
    }
    if (options.pidns && !options.request.options.restore_pid)
        return cryo::Error(
            EINVAL, "--pidns keeps the saved ids: it cannot be combined with --no-restore-pid");
    if (options.pidns && cryo::cli::has_requester())
        return cryo::Error(ENOTSUP, "--pidns: a process in another pid namespace cannot be the "
                                    "child of the program that asks for it");
    if (options.request.options.prefer_pid) {
        if (options.ids_chosen || options.pidns)
            return cryo::Error(EINVAL, "--prefer-pid chooses among saved and new ids: it cannot be "
                                       "combined with --restore-pid, --no-restore-pid or --pidns");
        options.request.options.restore_pid = false;
        options.ids_chosen = true;
    }
    options.request.options.own_pid_namespace = options.pidns;
    options.image = named;
    if (cryo::cli::is_stored(named))
        options.stored = named;
    if (cryo::Result<void> good = complete_url(options); !good)
        return good;
    for (const std::string &owner : options.owners) {
        if (cryo::Result<void> known = options.request.trust->add(owner); !known)
            return known;
    }
    return options.keeping.wanted() ? complete_keeping(options) : cryo::Result<void>();
}
