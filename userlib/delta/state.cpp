// SPDX-License-Identifier: Apache-2.0
#include "delta/state.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

#include "image/reader.hpp"
#include "image/writer.hpp"

namespace cryo::delta {

using namespace cryo::image;

namespace {

constexpr uint32_t kBaseSignature = 1;
constexpr uint32_t kPreviousSignature = 2;

Entry from_record(const DeltaVersion &v)
{
    return {.number = v.number,
            .id = Digest::from_bytes(v.image_id),
            .checksum = Digest::from_bytes(v.checksum),
            .base_id = Digest::from_bytes(v.base_id),
            .replaces = Digest::from_bytes(v.replaces),
            .base_number = v.base_number,
            .state = v.state,
            .path = std::string(v.path),
            .size = v.size,
            .stored = v.stored,
            .blocks = v.blocks,
            .changed = v.changed,
            .created = v.created};
}

DeltaVersion to_record(const Entry &e)
{
    return {.number = e.number,
            .image_id = e.id.bytes(),
            .checksum = e.checksum.bytes(),
            .base_id = e.base_id.bytes(),
            .replaces = e.replaces.bytes(),
            .base_number = e.base_number,
            .state = e.state,
            .path = e.path,
            .size = e.size,
            .stored = e.stored,
            .blocks = e.blocks,
            .changed = e.changed,
            .created = e.created};
}

Result<void> save_signature(ImageWriter &writer, uint32_t object, const Signature &signature)
{
    std::vector<Digest> padded = signature.blocks;
    while (padded.size() % (kPageSize / sizeof(Digest)))
        padded.emplace_back();
    Object about{.id = object,
                 .kind = ObjectKind::signature,
                 .size = signature.blocks.size() * sizeof(Digest),
                 .name = {}};
    if (auto ok = writer.add(about); !ok)
        return ok;
    return writer.add_pages(object, 0, stored_form(padded));
}

Result<Signature> load_signature(Image &image, uint32_t object, uint64_t size, uint32_t block_size)
{
    Signature out{.block_size = block_size, .size = size, .blocks = {}};
    uint64_t count = block_count(size, block_size);
    uint64_t pages = (count + kPageSize / sizeof(Digest) - 1) / (kPageSize / sizeof(Digest));
    // Digests occupy blocks of the file, so no number in it can cause a larger allocation.
    if (pages > image.footer().blocks)
        return damaged(image.name() + ": lacks a signature");
    out.blocks.resize(pages * kPageSize / sizeof(Digest));
    auto ok = image.read_pages(object, 0,
                               {reinterpret_cast<uint8_t *>(out.blocks.data()), pages * kPageSize});
    if (!ok)
        return ok.error();
    out.blocks.resize(count);
    return out;
}

Result<std::unique_ptr<ImageWriter>> start(const std::string &path)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .direct = false});
    if (!sink)
        return sink.error();
    return ImageWriter::create(std::move(*sink), {.role = Role::file, .synchronous = true});
}

} // namespace

std::string state_path(const std::string &directory)
{
    return directory + "/state";
}

std::string pending_path(const std::string &directory)
{
    return directory + "/pending";
}

Result<State> State::load(const std::string &directory, const std::shared_ptr<const Trust> &trust)
{
    auto opened = Image::open(state_path(directory), {.trust = trust});
    if (!opened)
        return opened.error();
    Image &image = **opened;
    State out;
    DeltaService s;
    unsigned services = 0;
    auto ok = image.for_each<DeltaService>([&](const DeltaService &found) {
        s = found;
        services++;
    });
    if (ok)
        ok = image.for_each<DeltaVersion>(
            [&](const DeltaVersion &v) { out.entries.push_back(from_record(v)); });
    if (!ok)
        return ok.error();
    if (services != 1 || s.mode > DeltaMode::differential || !is_block_size(s.block_size) ||
        s.packing > uint32_t(Packing::smallest) || s.package_blocks < kMinPackageBlocks ||
        s.package_blocks > kMaxPackageBlocks)
        return damaged(image.name() + ": is no state of a service directory");
    out.series = Digest::from_bytes(s.series);
    out.next = s.next;
    out.settings = {.policy = {s.mode, s.threshold, s.most_images},
                    .block_size = s.block_size,
                    .package_blocks = s.package_blocks,
                    .packing = static_cast<Packing>(s.packing)};
    out.base.image = Digest::from_bytes(s.base);
    out.previous.image = Digest::from_bytes(s.previous);
    auto base = load_signature(image, s.base_signature, s.base_size, s.block_size);
    auto previous = load_signature(image, s.previous_signature, s.previous_size, s.block_size);
    if (!base || !previous)
        return base ? previous.error() : base.error();
    out.base.signature = std::move(*base);
    out.previous.signature = std::move(*previous);
    return out;
}

Result<void> State::save(const std::string &directory) const
{
    auto writer = start(state_path(directory));
    if (!writer)
        return writer.error();
    const bool same = base.image == previous.image;
    DeltaService s{.series = series.bytes(),
                   .next = next,
                   .mode = settings.policy.mode,
                   .threshold = settings.policy.threshold,
                   .most_images = settings.policy.most_images,
                   .block_size = settings.block_size,
                   .package_blocks = settings.package_blocks,
                   .packing = uint32_t(settings.packing),
                   .base = base.image.bytes(),
                   .base_size = base.signature.size,
                   .base_signature = kBaseSignature,
                   .previous = previous.image.bytes(),
                   .previous_size = previous.signature.size,
                   .previous_signature = same ? kBaseSignature : kPreviousSignature};
    auto ok = (*writer)->add(s);
    for (const Entry &e : entries)
        if (ok)
            ok = (*writer)->add(to_record(e));
    if (ok)
        ok = save_signature(**writer, kBaseSignature, base.signature);
    if (ok && !same)
        ok = save_signature(**writer, kPreviousSignature, previous.signature);
    if (!ok)
        return ok;
    auto done = (*writer)->commit();
    return done ? Result<void>() : done.error();
}

const Entry *State::by_id(const Digest &id) const
{
    auto found = std::ranges::find(entries, id, &Entry::id);
    return found == entries.end() ? nullptr : &*found;
}

Entry *State::by_id(const Digest &id)
{
    return const_cast<Entry *>(std::as_const(*this).by_id(id));
}

const Entry *State::by_number(uint32_t number) const
{
    for (const Entry &e : entries)
        if (e.number == number && e.state == DeltaState::kept)
            return &e;
    return nullptr;
}

const Entry *State::by_path(const std::string &path) const
{
    for (const Entry &e : entries)
        if (e.path == path && e.state != DeltaState::removed)
            return &e;
    return nullptr;
}

std::vector<const Entry *> State::chain(const Entry &entry) const
{
    std::vector<const Entry *> out;
    for (const Entry *e = &entry; e && out.size() < kMaxDeltaDepth;
         e = e->base_id ? by_id(e->base_id) : nullptr)
        out.push_back(e);
    return out;
}

std::vector<const Entry *> State::based_on(const Digest &id) const
{
    std::vector<const Entry *> out;
    for (const Entry &e : entries)
        if (e.base_id == id && e.state != DeltaState::removed)
            out.push_back(&e);
    return out;
}

Result<void> save_pending(const std::string &directory, const Entry &entry)
{
    auto writer = start(pending_path(directory));
    if (!writer)
        return writer.error();
    if (auto ok = (*writer)->add(to_record(entry)); !ok)
        return ok;
    auto done = (*writer)->commit();
    return done ? Result<void>() : done.error();
}

Result<std::optional<Entry>> load_pending(const std::string &directory,
                                          const std::shared_ptr<const Trust> &trust)
{
    std::string path = pending_path(directory);
    if (access(path.c_str(), F_OK) && errno == ENOENT)
        return std::optional<Entry>();
    auto image = Image::open(path, {.trust = trust});
    if (!image)
        return image.error();
    std::optional<Entry> out;
    auto ok =
        (*image)->for_each<DeltaVersion>([&](const DeltaVersion &v) { out = from_record(v); });
    if (!ok)
        return ok.error();
    if (!out)
        return damaged(path + ": does not say which image is about to appear");
    return out;
}

} // namespace cryo::delta
