// SPDX-License-Identifier: Apache-2.0
#include "list.hpp"

#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/text.hpp"
#include "coord/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::coord::SnapshotStore;
using nlohmann::json;

int list_snapshots(const char *command, const std::string &base, bool as_json)
{
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator all_there(base, error);
    for (; !error && all_there != std::filesystem::directory_iterator();
         all_there.increment(error)) {
        const std::string name = all_there->path().filename();
        std::error_code ignored; // anybody may have left a link without an end in /tmp
        if (name.ends_with(".ckpt") && all_there->is_directory(ignored))
            names.push_back(name);
    }
    if (error)
        return cryo::cli::fail(command, Error::from_errno(base, error.value()));
    std::sort(names.begin(), names.end());
    json all = json::array();
    for (const std::string &name : names) {
        const Result<SnapshotStore> store = SnapshotStore::open(fmt::format("{}/{}", base, name));
        if (!store) {
            if (store.error().code() != ENOENT)
                cryo::print(stderr, "{}: {}\n", command,
                            cryo::cli::printable(store.error().text()));
            continue;
        }
        for (const auto &[seq, snapshot] : store->snapshots()) {
            if (!snapshot.finished)
                continue;
            all.push_back({{"reference", name},
                           {"seq", seq},
                           {"ranks", snapshot.ranks()},
                           {"bytes", snapshot.bytes()},
                           {"completed", snapshot.completed}});
            const size_t local = snapshot.local_images();
            if (local > 0)
                all.back()["local"] = local;
            const std::set<int> needs = snapshot.needs();
            if (!needs.empty())
                all.back()["needs"] = needs;
            if (!snapshot.redundancy.empty())
                all.back()["redundancy"] = snapshot.redundancy;
            if (!as_json)
                cryo::print("Snapshot Ref.: {:3} {}  {}, {}, {}{}{}{}\n", seq, printable(name),
                            cryo::cli::count_text(snapshot.ranks(), "rank", "ranks"),
                            cryo::cli::size_text(snapshot.bytes()), printable(snapshot.completed),
                            needs.empty() ? "" : fmt::format(", needs {}", fmt::join(needs, ", ")),
                            local > 0 ? fmt::format(", {} of them on their nodes too", local) : "",
                            snapshot.redundancy.empty()
                                ? ""
                                : fmt::format(" ({})", printable(snapshot.redundancy)));
        }
    }
    if (as_json)
        cryo::print("{}\n", all.dump(-1, ' ', true, json::error_handler_t::replace));
    return 0;
}
