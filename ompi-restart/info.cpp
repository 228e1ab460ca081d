// SPDX-License-Identifier: Apache-2.0
#include "info.hpp"

#include "base/print.hpp"
#include "cli/text.hpp"
#include "coord/launch.hpp"
#include "coord/launcher_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

using cryo::printable;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotSet;
using cryo::coord::SnapshotStore;
using nlohmann::json;

namespace {

json as_object(const SnapshotStore &store, const Snapshot &snapshot,
               const std::vector<std::string> &command_line)
{
    json images = json::array();
    for (const auto &image : snapshot.images) {
        images.push_back({{"rank", image.rank},
                          {"pid", image.pid},
                          {"node", image.node},
                          {"bytes", image.bytes},
                          {"file", store.image_path(snapshot, image)}});
        if (!image.needs.empty())
            images.back()["needs"] = image.needs;
        if (!image.local.empty())
            images.back().update({{"local", image.local}, {"checksum", image.checksum}});
    }
    json all = {{"seq", snapshot.seq},
                {"started", snapshot.started},
                {"completed", snapshot.completed},
                {"launcher", snapshot.launcher},
                {"command", command_line},
                {"directory", snapshot.directory},
                {"images", images}};
    if (!snapshot.redundancy.empty()) {
        json sets = json::array();
        for (const SnapshotSet &set : snapshot.sets)
            sets.push_back(set.nodes);
        all.update({{"redundancy", snapshot.redundancy}, {"sets", sets}});
    }
    return all;
}

void print(const Snapshot &snapshot, const std::vector<std::string> &command_line)
{
    std::string words;
    for (const std::string &word : command_line)
        words += " " + word;
    cryo::print("Seq. {}: {}, {}, {}\n   {}\n", snapshot.seq,
                cryo::cli::count_text(snapshot.images.size(), "rank", "ranks"),
                cryo::cli::size_text(snapshot.bytes()), printable(snapshot.completed),
                printable(words));
    for (const auto &image : snapshot.images)
        cryo::print("    rank {:4}  pid {:7}  {}  {}{}{}\n", image.rank, image.pid,
                    cryo::cli::size_text(image.bytes), printable(image.node),
                    image.needs.empty()
                        ? ""
                        : fmt::format("  based on {}, needs {}", image.needs.front(),
                                      fmt::join(image.needs, ", ")),
                    image.local.empty() ? "" : "  " + printable(image.local));
    for (const SnapshotSet &set : snapshot.sets)
        cryo::print("    {} of the images on {}\n", printable(snapshot.redundancy),
                    printable(fmt::format("{}", fmt::join(set.nodes, ", "))));
}

} // namespace

int show_snapshots(const SnapshotStore &store, bool as_json)
{
    json all = json::array();
    for (const auto &[seq, snapshot] : store.snapshots()) {
        if (!snapshot.finished)
            continue;
        const std::vector<std::string> command_line =
            cryo::coord::without_exports(snapshot.command);
        const Snapshot whole = store.with_ranks(snapshot);
        if (as_json)
            all.push_back(as_object(store, whole, command_line));
        else
            print(whole, command_line);
    }
    if (as_json)
        cryo::print("{}\n", all.dump(-1, ' ', true, json::error_handler_t::replace));
    return 0;
}
