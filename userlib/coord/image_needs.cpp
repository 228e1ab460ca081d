// SPDX-License-Identifier: Apache-2.0
#include "coord/image_needs.hpp"

#include "base/trust.hpp"
#include "coord/snapshot_text.hpp"
#include "image/base_finder.hpp"
#include "image/needed_files.hpp"
#include "image/rank_groups.hpp"
#include "image/records.hpp"
#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

// The directory of the snapshot that has a rank's.
fs::path snapshot_with(const fs::path &rank)
{
    const fs::path parent = rank.parent_path();
    return parent.filename().string().starts_with(image::group_prefix) ? parent.parent_path()
                                                                       : parent;
}

// The snapshot whose directory has the rank's file; none: it lies elsewhere.
std::optional<int> seq_with(const fs::path &own, const fs::path &file)
{
    const fs::path rank = file.parent_path();
    const fs::path snapshot = snapshot_with(rank);
    const int seq = seq_of(snapshot.filename().string());
    const bool ours = seq >= 0 && rank.filename() == own.parent_path().filename() &&
                      snapshot.parent_path() == snapshot_with(own.parent_path()).parent_path();
    return ours ? std::optional(seq) : std::nullopt;
}

// With the images that it needs, as a restart will find them.
Result<std::unique_ptr<image::Snapshot>> open_chain(const std::string &path)
{
    const auto trust = std::make_shared<Trust>();
    return image::Snapshot::open(
        path, {.find_base = image::BaseFinder({}, trust).beside(path), .trust = trust});
}

bool has_digests(image::Image &image)
{
    bool found = false;
    static_cast<void>(
        image.for_each<image::PageDigests>([&](const image::PageDigests &) { found = true; }));
    return found;
}

} // namespace

Result<std::vector<int>> needs_of(const std::string &path)
{
    const Result<std::unique_ptr<image::Snapshot>> snapshot = open_chain(path);
    if (!snapshot)
        return snapshot.error();
    const auto file_of = [](const image::Image &image) {
        std::error_code ignored;
        return fs::read_symlink(fmt::format("/proc/self/fd/{}", image.fd()), ignored);
    };
    std::vector<int> needs;
    for (const image::SnapshotMember &member : (*snapshot)->members()) {
        if (member.state != image::MemberState::saved)
            continue;
        const Result<std::unique_ptr<image::Image>> image = (*snapshot)->open_member(member);
        const Result<std::vector<image::Image *>> chain =
            image ? (*image)->chain() : Result<std::vector<image::Image *>>(image.error());
        if (!chain)
            return chain.error();
        const fs::path own = file_of(**image);
        for (const image::Image *one : *chain) {
            const fs::path file = file_of(*one);
            if (!own.empty() && file == own) // itself, or a parent in the same archive
                continue;
            const std::optional<int> seq = seq_with(own, file);
            if (!seq)
                return Error(ESTALE, fmt::format("{}: is based on {}, which is in no finished "
                                                 "snapshot of the job",
                                                 path, one->name()));
            if (std::ranges::find(needs, *seq) == needs.end())
                needs.push_back(*seq);
        }
    }
    return needs;
}

Result<bool> may_be_base(const std::string &path)
{
    const Result<std::unique_ptr<image::Snapshot>> snapshot = open_chain(path);
    if (!snapshot)
        return snapshot.error();
    bool all_have_digests = true;
    const image::NeededFiles needs =
        image::needed_files(**snapshot, [&](const image::SnapshotMember &, image::Image &image) {
            all_have_digests = all_have_digests && has_digests(image);
        });
    if (needs.broken)
        return *needs.broken;
    return all_have_digests;
}

} // namespace cryo::coord
