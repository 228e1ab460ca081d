// SPDX-License-Identifier: Apache-2.0
// Images in a directory, and their removal.
#include "views.hpp"

#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/text.hpp"
#include "survey/words.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace cryo::status {

namespace {

using cli::printable;
using cli::size_text;
using survey::Kind;
using survey::Stored;
using Json = nlohmann::ordered_json;

Json json_of(const Stored &one)
{
    const auto or_null = [](auto value, bool known) { return known ? Json(value) : Json(); };
    return {{"name", one.name},
            {"also", one.also},
            {"kind", name_of(one.kind)},
            {"program", or_null(one.program, !one.program.empty())},
            {"pid", or_null(one.pid, one.pid != 0)},
            {"processes", or_null(one.processes, one.processes != 0)},
            {"taken_at_ns", one.taken_ns},
            {"stopped_ns", or_null(one.stopped_ns, one.stopped_ns != 0)},
            {"bytes", one.bytes},
            {"delta", one.delta},
            {"based_on", one.based_on},
            {"whole", !one.broken},
            {"fault", one.broken ? Json(one.broken->text()) : Json()}};
}

std::string kind_text(const Stored &one)
{
    if (one.broken)
        return "not whole";
    const char *kind = one.kind == Kind::job    ? "snapshot of a job"
                       : one.kind == Kind::file ? "version of a file"
                                                : "complete";
    if (!one.delta)
        return kind;
    return one.based_on.empty() ? "delta" : "delta of " + printable(one.based_on.front());
}

std::string name_text(const Stored &one)
{
    std::string text = printable(one.name);
    for (const std::string &name : one.also)
        text += ", " + printable(name);
    return text;
}

void show_table(const survey::Shelf &shelf)
{
    using enum cli::Align;
    const cli::Output out;
    cli::Columns table({left, right, left, right, left, left});
    if (!shelf.images.empty())
        table.add({"IMAGE", "PID", "TAKEN", "SIZE", "KIND", "PROGRAM"});
    for (const Stored &one : shelf.images)
        table.add({name_text(one), survey::number_text(one.pid), survey::age_text(one.taken_ns),
                   size_text(one.bytes), kind_text(one),
                   one.program.empty() ? "-" : printable(one.program)});
    out.print("{}", table.text(0));
    out.print("{}: {}, {}\n", printable(shelf.directory),
              cli::count_text(shelf.images.size(), "image", "images"), size_text(shelf.bytes()));
}

std::string words_of(const Stored &one)
{
    return fmt::format("{}, {}, taken {}", printable(one.name), size_text(one.bytes),
                       cli::time_text(one.taken_ns));
}

} // namespace

int show_images(const std::string &directory, bool json)
{
    const Result<survey::Shelf> shelf = survey::look_at_shelf(directory);
    if (!shelf)
        return cli::fail(command, shelf.error());
    if (json) {
        for (const Stored &one : shelf->images)
            print_line(json_of(one));
    } else {
        show_table(*shelf);
    }
    bool good = true;
    for (const Stored &one : shelf->images) {
        if (one.broken && !json)
            cli::say(command, one.broken->text());
        good = good && !one.broken;
    }
    return good ? 0 : not_good;
}

int prune_images(const std::string &directory, uint64_t budget, survey::Removal removal, bool json)
{
    const bool real = removal == survey::Removal::real;
    const Result<survey::Pruned> done =
        survey::prune(directory, budget, removal, [&](const Stored &gone) {
            if (json)
                print_line({{"removed", gone.name}, {"bytes", gone.bytes}, {"dry_run", !real}});
            else
                cryo::print("{} {}\n", real ? "removed" : "would remove", words_of(gone));
        });
    if (!done)
        return cli::fail(command, done.error());
    const bool fits = done->bytes <= budget;
    if (json) {
        print_line({{"directory", directory},
                    {"removed", done->removed},
                    {"freed", done->freed},
                    {"images", done->left},
                    {"bytes", done->bytes},
                    {"budget", budget},
                    {"fits", fits},
                    {"dry_run", !real}});
    } else {
        cryo::print("{}: {} {}, {}; {} {}, {}\n", printable(directory),
                    cli::count_text(done->removed, "image", "images"),
                    real ? "removed" : "would be removed", size_text(done->freed),
                    cli::count_text(done->left, "image", "images"),
                    real ? (done->left == 1 ? "stays" : "stay") : "would stay",
                    size_text(done->bytes));
    }
    if (!fits && !json)
        cli::say(command,
                 fmt::format("{}: what stays is {} more than {}: of each program the newest good "
                             "image and what it needs, and what is no whole image of yours in one "
                             "file without further names (--images {} shows all)",
                             directory, size_text(done->bytes - budget), size_text(budget),
                             directory));
    return fits ? 0 : not_good;
}

} // namespace cryo::status
