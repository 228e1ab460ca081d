// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/number.hpp"

namespace cryo::inspect {

namespace {

int misused(const std::string &why)
{
    cli::say(kCommand, fmt::format("{}; try {} --help", why, kCommand));
    return kUsage;
}

} // namespace

std::optional<int> parse(int argc, char **argv, Options &options)
{
    CLI::App app("Shows what is in checkpoint images: one file, an archive, a directory of images, "
                 "or a stream on standard input (-).",
                 kCommand);
    app.add_option("FILE", options.files, "Images, archives, directories; - is standard input")
        ->required();
    app.add_flag("--json", options.json, "Everything, for programs");
    auto *maps = app.add_flag("--maps", options.maps, "The memory map, and what of it is stored");
    auto *files = app.add_flag("--files", options.descriptors,
                               "Descriptors, the files behind them, and what was not saved");
    auto *records = app.add_flag("--records", options.records, "Every record with all its fields");
    auto *verify =
        app.add_flag("--verify", options.verify, "Check every byte; list what is wrong, and where");
    auto *diff = app.add_flag("--diff", options.diff, "Compare two images: records and pages");
    auto *html =
        app.add_flag("--html", options.html,
                     "A page for a browser, with pictures; also of an MPI job's snapshots");
    auto *extract =
        app.add_option("--extract", options.extract,
                       "Write the contents of OBJECT[:FROM-TO] to a file: an object's number, "
                       "'memory', an address, the name of a region or the path of a saved file");
    auto *output = app.add_option("-o,--output", options.output,
                                  "Where --extract and --html write: a new file; - is standard "
                                  "output");
    app.add_option("--base", options.bases,
                   "Images that a delta may be based on; those in the same directory are found");
    app.add_option("--pid", options.pid, "Only this process of an archive or directory")
        ->transform(cli::above_zero());
    app.add_flag("-a,--all", options.all,
                 "Lists in full, however long; with --html the environment, too");
    std::vector<CLI::Option *> views{maps, files, records, verify, diff, html, extract};
    for (CLI::Option *one : views)
        for (CLI::Option *other : views)
            if (one != other)
                one->excludes(other);
    extract->needs(output);
    app.footer("Exit status: 0 good, 1 damaged or unreadable, 2 different (--diff), 255 wrong "
               "usage.");
    cli::add_examples(app, {{"cr_inspect context.*", "what the images hold, in one table"},
                            {"cr_inspect --verify context.412", "checks every byte"},
                            {"cr_inspect --diff old new", "compares two images"},
                            {"cr_inspect --html context.412 > page.html", "a page to look at"}});
    if (std::optional<int> done = cli::parse(app, argc, argv))
        return done;
    if (options.diff && options.files.size() != 2)
        return misused("--diff compares two images");
    if (!options.extract.empty() && options.files.size() != 1)
        return misused("--extract takes one image");
    if (!options.output.empty() && options.extract.empty() && !options.html)
        return misused("--output is for --extract and --html");
    if (options.json && options.html)
        return misused("--json is for programs and --html for people; choose one");
    if (options.json &&
        (options.maps || options.descriptors || options.records || !options.extract.empty()))
        return misused("--json has all of that by itself; it goes with --verify or --diff only");
    return std::nullopt;
}

} // namespace cryo::inspect
