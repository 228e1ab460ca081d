// SPDX-License-Identifier: Apache-2.0
// cr_status: which programs can be saved, are saved, and are brought back by themselves; and which
// images there are.
#include "cli/command.hpp"
#include "cli/number.hpp"
#include "views.hpp"

#include <fmt/format.h>

namespace {

namespace status = cryo::status;
using cryo::survey::Running;

struct Options {
    pid_t pid = 0;
    bool json = false;
    std::optional<std::string> images = {};
    std::optional<uint64_t> budget = {};
    bool dry_run = false;
};

void add_options(CLI::App &app, Options &options)
{
    CLI::Option *pid =
        app.add_option("PID", options.pid,
                       "Only this one: the process id of the program, or of its supervisor")
            ->transform(cryo::cli::above_zero());
    app.add_flag("--json", options.json, "Print a line of JSON for each program, or each image");
    CLI::Option *images =
        app.add_option("--images", options.images, "Show the images in this directory instead")
            ->type_name("DIRECTORY")
            ->excludes(pid);
    CLI::Option *prune =
        app.add_option("--prune", options.budget,
                       "Remove the oldest images of --images until all take this much, such as 20G")
            ->type_name("SIZE")
            ->transform(CLI::AsSizeValue(false))
            ->needs(images);
    app.add_flag("--dry-run", options.dry_run, "With --prune: only say what would be removed")
        ->needs(prune);
    cryo::cli::add_examples(
        app, {{"cr_status 412", "what is known of one"},
              {"cr_status --json", "of all of them, for a script"},
              {"cr_status --images run", "the images in the directory run"},
              {"cr_status --images run --prune 20G --dry-run", "what would go, to have 20 GiB"}});
}

int show_running(const Options &options)
{
    std::vector<Running> all = cryo::survey::Survey().look();
    if (options.pid != 0) {
        std::erase_if(all, [pid = options.pid](const Running &one) {
            return one.said.supervisor != pid && one.said.program != pid;
        });
        if (all.empty()) {
            cryo::cli::say(status::command,
                           fmt::format("process {}: is neither brought back nor saved by itself, "
                                       "and is not the first one of a program under cr_run; "
                                       "`cr_run --recover` starts programs that come back",
                                       options.pid));
            return status::not_good;
        }
    }
    return status::show_programs(all, options.pid, options.json);
}

int run(int argc, char **argv)
{
    CLI::App app("Shows the programs that can be saved, and those that are saved or brought back "
                 "by themselves; or the images in a directory.",
                 status::command);
    Options options;
    add_options(app, options);
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    if (!options.images)
        return show_running(options);
    if (!options.budget)
        return status::show_images(*options.images, options.json);
    return status::prune_images(*options.images, *options.budget,
                                options.dry_run ? cryo::survey::Removal::imagined
                                                : cryo::survey::Removal::real,
                                options.json);
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole(status::command, [&] { return run(argc, argv); });
}
