// SPDX-License-Identifier: Apache-2.0
#include "cli/file_options.hpp"

namespace cryo::cli {

namespace {

constexpr const char *group = "Files and descriptors";

} // namespace

void add_file_options(CLI::App &app, capture::FileOptions &files)
{
    app.add_option_function<std::string>(
           "--sockets",
           [&files](const std::string &what) {
               files.close_sockets = what == "close";
               files.keep_sockets = what == "keep";
           },
           "refuse: a program with a connection that cannot be saved is refused (default); close: "
           "the connection comes back as closed, as an inherited one always does; keep: a TCP "
           "connection waits for the restart, if the program ends (--term, --kill); needs "
           "CAP_NET_ADMIN")
        ->check(CLI::IsMember({"refuse", "close", "keep"}))
        ->group(group);
    app.add_option_function<std::string>(
           "--pipes",
           [&files](const std::string &what) {
               files.refuse_pipes = what == "refuse";
               files.close_fifos = what == "close";
           },
           "One pipe to a process outside becomes each of cr_restart's standard descriptors. "
           "Further pipes come back as closed at the other end; further FIFOs are refused, or with "
           "close come back as closed, too; with refuse the program is not saved if it has further "
           "ones")
        ->check(CLI::IsMember({"refuse", "close"}))
        ->group(group);
    app.add_flag("--save-files", files.save_files,
                 "Save the contents of all regular files that are open, too")
        ->group(group);
}

void add_contents_options(CLI::App &app, capture::FileOptions &files)
{
    constexpr const char *contents = "Memory of files that is saved (more than one may be given)";
    const auto save = [&](const char *name, bool exe, bool libraries, bool shared,
                          const char *help) {
        app.add_flag_callback(
               name,
               [&files, exe, libraries, shared] {
                   const bool none = !exe && !libraries && !shared;
                   files.save_exe = !none && (files.save_exe || exe);
                   files.save_private = !none && (files.save_private || libraries);
                   files.save_shared = !none && (files.save_shared || shared);
               },
               help)
            ->trigger_on_parse()
            ->group(contents);
    };
    save("--save-none", false, false, false, "None of these (default)");
    save("--save-exe", true, false, false, "Every page of the program file");
    save("--save-private", false, true, false,
         "Every page of files that are mapped privately (libraries)");
    save("--save-shared", false, false, true,
         "The contents of files that are mapped shared; a restart rolls them back");
    save("--save-all", true, true, true, "All of these");
}

void add_file_options(CLI::App &app, restore::FileOptions &files)
{
    app.add_option_function<std::string>(
           "--sockets",
           [&files](const std::string &what) { files.close_sockets = what == "close"; },
           "keep: a TCP connection that was saved with --sockets=keep goes on (default); close: it "
           "comes back as closed")
        ->check(CLI::IsMember({"keep", "close"}))
        ->group(group);
    app.add_option_function<std::vector<std::string>>(
           "--relocate",
           [&files](const std::vector<std::string> &all) {
               for (const std::string &text : all) {
                   Result<restore::Relocation> one = restore::Relocation::parse(text);
                   if (!one)
                       throw CLI::ValidationError(one.error().text());
                   files.relocations.push_back(*one);
               }
               if (files.relocations.size() > restore::most_relocations)
                   throw CLI::ValidationError("--relocate can be given 16 times");
           },
           "Look for OLD and what is below it at NEW; may be repeated")
        ->type_name("OLD=NEW")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
    const struct {
        const char *name;
        int fd;
        const char *help;
    } streams[] = {
        {"--stdin", 0, "Standard input is this file; -: that of cr_restart"},
        {"--stdout", 1, "Standard output is this file, appended to; -: that of cr_restart"},
        {"--stderr", 2, "Standard error is this file, appended to; -: that of cr_restart"},
    };
    for (const auto &[name, fd, help] : streams) {
        app.add_option_function<std::string>(
               name,
               [&files, number = fd](const std::string &path) { files.redirected[number] = path; },
               help)
            ->type_name("FILE")
            ->group(group);
    }
    app.add_flag("--keep-output", files.keep_output,
                 "A file to which cr_restart's own output goes, such as the log of a batch job, is "
                 "not cut back: the processes write on at its end")
        ->group(group);
}

} // namespace cryo::cli
