// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/delta_plan.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/trust.hpp"
#include "capture/memory/method.hpp"
#include "capture/memory/objects.hpp"
#include "capture/memory/tracker.hpp"
#include "delta/adaptive.hpp"
#include "image/base_finder.hpp"

namespace cryo::capture {

using namespace cryo::image;

namespace {

namespace fs = std::filesystem;

bool same_file(const std::string &a, const std::string &b)
{
    struct stat first;
    struct stat second;
    return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

std::string file_of(const Image &image)
{
    return fmt::format("/proc/self/fd/{}", image.fd());
}

// The image and all images that it needs, itself first. None of them may be a file that is about to
// be replaced, or lie in a directory that is.
Result<std::vector<Image *>> chain_of(Image &image, const DeltaPlan::Places &places)
{
    Result<std::vector<Image *>> chain = image.chain();
    if (!chain)
        return chain;
    for (const Image *one : *chain) {
        if (same_file(file_of(*one), places.target) ||
            same_file(fs::path(one->name()).parent_path(), places.target))
            return Error(EEXIST, fmt::format("{}: would be replaced by an image that needs it; "
                                             "choose another name for the new one, or --delta=none",
                                             places.target));
        if (same_file(file_of(*one), places.backup))
            return Error(EEXIST, fmt::format("{}: would be replaced by the backup, and the new "
                                             "image needs it; choose another name for the backup, "
                                             "or --delta=none",
                                             places.backup));
    }
    return chain;
}

// The first image of a chain that is not based on an earlier checkpoint's. Behind it come, for a
// fork's, those of its parents.
size_t last_of(const std::vector<Image *> &chain)
{
    size_t last = 0;
    while (chain[last]->header().is_delta_of_earlier() && last + 1 < chain.size())
        last++;
    return last;
}

// `trust`: null if the user has named the image.
Result<std::unique_ptr<Snapshot>> open_snapshot(const std::string &path,
                                                const std::shared_ptr<const Trust> &trust)
{
    return Snapshot::open(path, {.find_base = BaseFinder({}, trust).beside(path), .trust = trust});
}

// The newest image of the process in the target's directory, of those that a restart would trust.
// It is only a candidate: what is taken from it is compared page by page.
std::string newest_beside(const std::string &target, pid_t pid,
                          const std::shared_ptr<const Trust> &trust)
{
    std::string newest;
    int64_t created = 0;
    std::error_code error;
    const fs::path directory = fs::path(target).parent_path();
    for (const auto &file : fs::directory_iterator(directory.empty() ? "." : directory, error)) {
        const std::string path = file.path();
        if (!file.is_regular_file(error) || file.is_symlink(error) || !id_of_file(path) ||
            same_file(path, target))
            continue;
        Result<std::unique_ptr<Snapshot>> snapshot = open_snapshot(path, trust);
        if (!snapshot || (*snapshot)->root_pid() != static_cast<uint32_t>(pid) ||
            (*snapshot)->members().empty())
            continue;
        Result<std::unique_ptr<Image>> image =
            (*snapshot)->open_member((*snapshot)->members().front());
        if (!image || (*image)->header().role != Role::process)
            continue;
        if (newest.empty() || (*image)->header().created > created) {
            newest = path;
            created = (*image)->header().created;
        }
    }
    return newest;
}

bool is_trusted(const Image &image, const Trust &trust)
{
    return bool(trust.check(image.fd(), image.name()));
}

Result<PageDigests> measured(Image &image)
{
    PageDigests about;
    Result<void> read = image.for_each<PageDigests>([&](const PageDigests &found) {
        if (found.of == memory_object)
            about = found;
    });
    if (!read)
        return read.error();
    return about;
}

Result<DeltaPlan::Watched> watched_since(Image &image)
{
    DeltaPlan::Watched watched;
    bool whole = true;
    Result<void> read = image.for_each<PageTracker>([&](const PageTracker &found) {
        watched.token = found.token;
        watched.mark = found.mark;
        watched.needs_copy = found.tracker == soft_dirty_name || found.tracker == module_name;
        uint64_t last = 0;
        for (size_t i = 0; i + 1 < found.unsure.size(); i += 2) {
            const Run run = {found.unsure[i], found.unsure[i + 1]};
            whole = whole && run.start >= last && run.end > run.start;
            last = run.end;
            watched.unsure.push_back(run);
        }
        whole = whole && found.unsure.size() % 2 == 0;
    });
    if (!read)
        return read.error();
    if (!whole)
        return Error(EBADMSG, image.name() + ": its unsure pages are not in order");
    return watched;
}

// Bytes written per second, whether while the program ran again or while it was stopped for
// reading; 0: unknown.
Result<uint64_t> rate_of(Image &image)
{
    uint64_t took = 0;
    Result<void> read = image.for_each<ImageInfo>([&](const ImageInfo &info) {
        const bool in_stop = info.snapshot == name_of(Method::stop) && info.stopped_ns != 0;
        took = in_stop ? info.stopped_ns : info.total_ns - info.stopped_ns;
    });
    if (!read)
        return read.error();
    struct stat file;
    if (took == 0 || fstat(image.fd(), &file) != 0)
        return 0;
    return static_cast<uint64_t>(static_cast<double>(file.st_size) * 1e9 /
                                 static_cast<double>(took));
}

} // namespace

const DeltaPlan::Base *DeltaPlan::base_of(pid_t pid) const
{
    const auto found = bases_.find(static_cast<uint32_t>(pid));
    return found == bases_.end() ? nullptr : &found->second;
}

Result<void> DeltaPlan::choose_base(const DeltaOptions &options, const Snapshot &snapshot,
                                    const SnapshotMember &member, const Places &places)
{
    Result<std::unique_ptr<Image>> previous = snapshot.open_member(member);
    if (!previous)
        return previous.error();
    Result<std::vector<Image *>> chain = chain_of(**previous, places);
    Result<PageDigests> about = chain ? measured(**previous) : chain.error();
    if (!about)
        return about.error();
    const size_t last = last_of(*chain);
    const bool is_delta = last > 0;
    size_t base_at = is_delta ? 1 : 0;
    if (*options.mode == DeltaMode::differential)
        base_at = last;
    // Uses the sizes measured by the previous checkpoint: the base is named in the first page of an
    // image, before its first page of memory is known.
    const delta::Situation now = {
        .blocks = std::max<uint64_t>(about->pages, 1),
        .block_size = kPageSize,
        .changed_to_base = about->changed_to_base,
        .changed_to_previous = about->changed_to_previous,
        .images_of_base = static_cast<uint32_t>(chain->size() - base_at),
        .images_of_previous = static_cast<uint32_t>(chain->size()),
        .previous_is_base = !is_delta,
    };
    const delta::Choice choice =
        delta::choose({*options.mode, options.threshold, options.most_images}, now);
    if (choice == delta::Choice::complete)
        return {};
    const size_t chosen = choice == delta::Choice::base ? base_at : 0;
    Image &image = *(*chain)[chosen];
    Base base;
    base.image = {image.header().id, image.footer().checksum};
    base.previous = (*previous)->header().id;
    Result<Watched> watched = watched_since(image);
    Result<Watched> previous_watched = watched_since(**previous);
    Result<uint64_t> rate = rate_of(**previous);
    if (!watched || !previous_watched || !rate)
        return !watched ? watched.error() : !rate ? rate.error() : previous_watched.error();
    base.writes_per_s = *rate;
    // The agent's token is replaced at the address that an image gives, and pages are not read
    // because of it: another user's image, which can only have been named, is not believed there.
    if (is_trusted(image, *trust_) && is_trusted(**previous, *trust_)) {
        base.watched = std::move(*watched);
        base.previous_watched = std::move(*previous_watched);
    }
    base.name = image.name();
    base.images = static_cast<uint32_t>(chain->size() - chosen) + 1;
    // The previous image's table is only used to count changes, for the next choice.
    const auto load = [](Image &from) -> Result<std::shared_ptr<const PageTable>> {
        Result<PageTable> table = PageTable::of(from);
        if (!table)
            return table.error();
        return std::make_shared<const PageTable>(std::move(*table));
    };
    Result<std::shared_ptr<const PageTable>> pages = load(image);
    Result<std::shared_ptr<const PageTable>> others =
        !pages || chosen == 0 ? pages : load(**previous);
    if (!others)
        return others.error();
    base.left_by_base = (*pages)->common_with(**pages);
    base.left_by_previous = (*pages)->common_with(**others);
    base.expected = is_delta ? about->changed_to_previous : 0;
    base.pages = std::move(*pages);
    base.previous_pages = std::move(*others);
    bases_.emplace(member.pid, std::move(base));
    for (size_t i = chosen; i < chain->size(); i++)
        needed_.push_back((*chain)[i]->header().id);
    return {};
}

Result<DeltaPlan> DeltaPlan::make(const DeltaOptions &options, const Places &places, pid_t root,
                                  const Trust::Ask &owner_of)
{
    DeltaPlan plan;
    if (!options.mode)
        return plan;
    plan.wanted_ = true;
    const bool named = !options.previous.empty();
    // Another user may have put an image beside the new one; one that is named was chosen.
    const auto callers = std::make_shared<Trust>();
    if (owner_of)
        callers->ask(owner_of);
    plan.trust_ = callers;
    const auto trust = named ? std::shared_ptr<const Trust>() : plan.trust_;
    const std::string previous =
        named ? options.previous : newest_beside(places.target, root, trust);
    if (previous.empty()) {
        plan.notice_ = "there is no earlier image beside it: this one is complete";
        return plan;
    }
    Result<std::unique_ptr<Snapshot>> snapshot = open_snapshot(previous, trust);
    if (!snapshot)
        return snapshot.error();
    for (const SnapshotMember &member : (*snapshot)->members()) {
        if (member.state != MemberState::saved)
            continue;
        Result<void> chosen = plan.choose_base(options, **snapshot, member, places);
        if (chosen)
            continue;
        if (named)
            return chosen.error().within("the image of the checkpoint before cannot be used; name "
                                         "another with --base, or --delta=none");
        // The image was found, not named, so this is no error.
        plan.bases_.clear();
        plan.needed_.clear();
        plan.notice_ = fmt::format("{}: cannot be a base, this image is complete ({})", previous,
                                   chosen.error().text());
        return plan;
    }
    plan.notice_ = plan.bases_.empty()
                       ? "no more images shall be based on each other: this one is complete"
                       : fmt::format("unchanged pages are left out and stay in {}",
                                     plan.bases_.begin()->second.name);
    return plan;
}

} // namespace cryo::capture
