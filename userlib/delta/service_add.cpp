// SPDX-License-Identifier: Apache-2.0
//
// Operations of a service on its versions: add, merge, prune.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.hpp"
#include "delta/plain_file.hpp"
#include "delta/service.hpp"

namespace cryo::delta {

using namespace cryo::image;

namespace {

// The state holds absolute paths, as the next process may run in another directory.
Result<std::string> absolute_path(const std::string &path)
{
    std::error_code error;
    std::filesystem::path given(path);
    auto directory =
        std::filesystem::canonical(given.has_parent_path() ? given.parent_path() : ".", error);
    if (error)
        return Error::from_errno(path, error.value());
    return (directory / given.filename()).string();
}

std::string numbers_of(const std::vector<const Entry *> &entries)
{
    std::string out;
    for (const Entry *e : entries)
        out += (out.empty() ? "" : ", ") + std::to_string(e->number);
    return out;
}

bool same_file(const std::string &a, const std::string &b)
{
    struct stat first;
    struct stat second;
    return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

} // namespace

Result<void> Service::check_target(const std::string &path, bool replace) const
{
    if (const Entry *known = state_.by_path(path))
        return Error(EEXIST, fmt::format("{}: holds version {} of this service directory; choose "
                                         "another name",
                                         path, known->number));
    struct stat st;
    if (!replace && lstat(path.c_str(), &st) == 0)
        return Error(EEXIST, path + ": exists; choose another name, or --force to replace it");
    return {};
}

// Opens the base with its whole chain, so that a missing or damaged image is reported now.
Result<std::unique_ptr<Version>> Service::open_base(const Digest &image) const
{
    const Entry *entry = state_.by_id(image);
    if (!entry)
        return Error(ENOENT, directory_ + ": does not know the image of its base");
    auto version = finder().open_whole(entry->path);
    if (!version)
        return version.error().within(
            fmt::format("version {}, the base, cannot be used; put it back, or begin anew with "
                        "add --complete",
                        entry->number));
    if ((*version)->image().header().id != image)
        return Error(ESTALE, fmt::format("{}: is not the image of version {} any more", entry->path,
                                         entry->number));
    return version;
}

Result<uint32_t> Service::images_of(const Digest &image) const
{
    if (!image)
        return 0u;
    const Entry *entry = state_.by_id(image);
    return entry ? uint32_t(state_.chain(*entry).size()) : 0u;
}

Result<Entry> Service::publish(Entry entry, ByteSource &source, VersionPlan plan, bool replace,
                               const Progress &progress)
{
    auto sink =
        FileSink::create(entry.path, {.existing = replace ? Existing::replace : Existing::refuse});
    if (!sink)
        return sink.error();
    plan.package_blocks = state_.settings.package_blocks;
    plan.packing = state_.settings.packing;
    plan.about.series = state_.series;
    plan.before_commit = [&](const Digest &id) {
        entry.id = id;
        return save_pending(directory_, entry);
    };
    auto done = write_version(source, plan, std::move(*sink), progress);
    if (!done) {
        unlink(pending_path(directory_).c_str());
        return done.error();
    }
    entry.checksum = done->checksum;
    entry.stored = done->size;
    return entry;
}

Result<Entry> Service::add(const AddRequest &request, const Progress &progress)
{
    auto path = absolute_path(request.image);
    if (!path)
        return path.error();
    if (auto ok = check_target(*path, request.replace); !ok)
        return ok.error();
    if (same_file(request.file, *path))
        return Error(EINVAL, *path + ": is the file itself; choose another name for the image");
    auto file = PlainFile::open(request.file);
    if (!file)
        return file.error();

    Settings settings = request.settings.value_or(state_.settings);
    bool complete = request.complete || settings.block_size != state_.settings.block_size;
    auto now = sign(**file, settings.block_size, progress);
    if (!now)
        return now.error();
    Choice choice = Choice::complete;
    if (!complete) {
        auto of_base = images_of(state_.base.image);
        auto of_previous = images_of(state_.previous.image);
        if (!of_base || !of_previous)
            return of_base ? of_previous.error() : of_base.error();
        Situation situation{.blocks = now->blocks.size(),
                            .block_size = settings.block_size,
                            .changed_to_base = count_changed(*now, state_.base.signature),
                            .changed_to_previous = count_changed(*now, state_.previous.signature),
                            .images_of_base = *of_base,
                            .images_of_previous = *of_previous,
                            .previous_is_base = state_.base.image == state_.previous.image};
        choice = choose(settings.policy, situation);
    }

    const Known &base = choice == Choice::previous ? state_.previous : state_.base;
    Entry entry{.number = state_.next,
                .path = *path,
                .size = now->size,
                .blocks = now->blocks.size(),
                .changed = now->blocks.size(),
                .created = clock_ns(CLOCK_REALTIME)};
    VersionPlan plan{.about = {.number = entry.number,
                               .name = std::filesystem::path(request.file).filename(),
                               .mode = (*file)->mode(),
                               .modified = (*file)->modified()},
                     .now = *now};
    if (choice != Choice::complete) {
        auto opened = open_base(base.image);
        if (!opened)
            return opened.error();
        const Entry *below = state_.by_id(base.image);
        plan.about.base = DeltaBase::image;
        plan.about.base_number = entry.base_number = below->number;
        plan.base_image = {below->id, below->checksum};
        plan.base = &base.signature;
        entry.base_id = below->id;
        entry.changed = count_changed(*now, base.signature);
    }
    state_.settings = settings;
    auto added = publish(entry, **file, plan, request.replace, progress);
    if (!added)
        return added;
    advance(*added, std::move(*now));
    if (auto ok = record(); !ok)
        return ok.error().within(*path + ": is written, and will be noted by the next command");
    unlink(pending_path(directory_).c_str());
    return added;
}

// Combines the partial signatures from the complete image up to this one.
Result<Signature> Service::signature_of(Version &version) const
{
    std::vector<std::string> paths;
    const Entry *entry = state_.by_id(version.image().header().id);
    if (!entry)
        return Error(ENOENT, version.name() + ": is not known here");
    std::optional<Signature> below;
    auto chain = state_.chain(*entry);
    for (size_t i = chain.size(); i-- > 0;) {
        auto opened = finder().open(chain[i]->path);
        if (!opened)
            return opened.error();
        auto next = (*opened)->signature(below ? &*below : nullptr);
        if (!next)
            return next;
        below = std::move(*next);
    }
    return std::move(*below);
}

Result<Entry> Service::merge(const MergeRequest &request, const Progress &progress)
{
    const Entry *old = state_.by_number(request.number);
    if (!old)
        return Error(ENOENT, fmt::format("{}: has no version {}", directory_, request.number));
    const bool in_place = request.image.empty();
    auto path = in_place ? old->path : absolute_path(request.image);
    if (!path)
        return path.error();
    if (auto others = state_.based_on(old->id); in_place && !others.empty())
        return Error(EBUSY, fmt::format("{}: version {} is the base of {}; merge into another file "
                                        "with -o",
                                        old->path, old->number, numbers_of(others)));
    if (!in_place)
        if (auto ok = check_target(*path, request.replace); !ok)
            return ok.error();
    auto version = finder().open_whole(old->path);
    if (!version)
        return version.error();
    auto now = signature_of(**version);
    if (!now)
        return now.error();

    Entry entry = *old;
    entry.path = *path;
    entry.replaces = old->id;
    entry.base_id = {};
    entry.base_number = 0;
    entry.changed = entry.blocks;
    entry.created = clock_ns(CLOCK_REALTIME);
    const About &about = (*version)->about();
    VersionPlan plan{.about = {.number = entry.number,
                               .name = about.name,
                               .mode = about.mode,
                               .modified = about.modified},
                     .now = *now};
    std::optional<Signature> base;
    if (request.onto) {
        const Entry *below = state_.by_number(request.onto);
        if (!below || below->id == old->id)
            return Error(ENOENT,
                         fmt::format("{}: has no other version {}", directory_, request.onto));
        auto opened = open_base(below->id);
        auto signature = opened ? signature_of(**opened) : opened.error();
        if (!signature)
            return signature.error();
        if (signature->block_size != now->block_size)
            return Error(EINVAL, fmt::format("versions {} and {} have blocks of different sizes",
                                             request.number, request.onto));
        if (state_.chain(*below).size() + 1 > kMaxDeltaDepth)
            return Error(ELOOP, "too many images would be based on each other");
        base = std::move(*signature);
        plan.base = &*base;
        plan.about.base = DeltaBase::image;
        plan.about.base_number = entry.base_number = below->number;
        plan.base_image = {below->id, below->checksum};
        entry.base_id = below->id;
        entry.changed = count_changed(*now, *base);
    }
    Contents contents(**version);
    auto merged = publish(entry, contents, plan, in_place || request.replace, progress);
    if (!merged)
        return merged;
    supersede(*merged);
    if (auto ok = record(); !ok)
        return ok.error().within(*path + ": is written, and will be noted by the next command");
    unlink(pending_path(directory_).c_str());
    return merged;
}

Result<Pruned> Service::prune(const Retention &retention, bool dry_run)
{
    if (retention.keep == 0)
        return Error(EINVAL, "at least the newest version is kept");
    std::set<uint32_t, std::greater<>> numbers;
    for (const Entry &e : state_.entries)
        if (e.state == DeltaState::kept)
            numbers.insert(e.number);
    std::set<uint32_t> kept;
    for (uint32_t number : numbers)
        if (kept.size() < retention.keep || (retention.every && number % retention.every == 0))
            kept.insert(number);

    std::set<const Entry *> needed;
    auto need = [&](const Entry *entry) {
        if (!entry)
            return;
        for (const Entry *e : state_.chain(*entry))
            needed.insert(e);
    };
    for (uint32_t number : kept) {
        const Entry *entry = state_.by_number(number);
        // Every kept version must be restorable before anything is removed.
        if (auto whole = finder().open_whole(entry->path); !whole)
            return whole.error().within(
                fmt::format("nothing is removed, because version {} cannot be restored", number));
        need(entry);
    }
    need(state_.by_id(state_.base.image));
    need(state_.by_id(state_.previous.image));

    Pruned out;
    for (Entry &e : state_.entries) {
        bool stays = e.state == DeltaState::kept && kept.contains(e.number);
        if (needed.contains(&e)) {
            if (!stays)
                out.needed.push_back(e);
            continue;
        }
        out.removed.push_back(e);
        if (!dry_run)
            e.state = DeltaState::removed;
    }
    if (dry_run || out.removed.empty())
        return out;
    if (auto ok = record(); !ok)
        return ok.error();
    if (auto ok = finish_removal(); !ok)
        return ok.error();
    return out;
}

} // namespace cryo::delta
