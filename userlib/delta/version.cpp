// SPDX-License-Identifier: Apache-2.0
//
// Opening a version and its chain.
#include "delta/version.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <optional>

namespace cryo::delta {

using namespace cryo::image;

namespace {

constexpr uint64_t kMaxSize = uint64_t(1) << 62;

uint64_t page_count(uint64_t bytes)
{
    return bytes / kPageSize + (bytes % kPageSize != 0);
}

// Adjacent extents of an object that have the same kind, joined.
struct PageRun {
    uint64_t first;
    uint64_t count;
    ExtentKind kind;
};

// The extents of an object if they cover its pages exactly, in order.
Result<std::vector<PageRun>> cover(Image &image, uint32_t object, uint64_t pages)
{
    std::vector<PageRun> out;
    uint64_t next = 0;
    auto ok = image.extents([&](const Extent &e) -> Result<void> {
        if (e.object != object)
            return {};
        if (e.page != next || e.count > pages - next)
            return damaged(fmt::format("object {} has no page {}, or one twice", object, next));
        if (e.kind == ExtentKind::base && e.source != e.page)
            return damaged(fmt::format("page {} stands elsewhere in the base", e.page));
        next += e.count;
        if (!out.empty() && out.back().kind == e.kind)
            out.back().count += e.count;
        else
            out.push_back({e.page, e.count, e.kind});
        return {};
    });
    if (!ok)
        return ok.error();
    if (next != pages)
        return damaged(fmt::format("object {} has {} of {} pages", object, next, pages));
    return out;
}

Error impossible(const char *what)
{
    return damaged(fmt::format("the version's {} cannot be", what));
}

Result<void> check(const Delta &d)
{
    if (!is_block_size(d.block_size))
        return impossible("block size");
    if (d.size > kMaxSize || d.blocks != block_count(d.size, d.block_size))
        return impossible("size");
    if (d.last_block != (d.blocks ? d.size - (d.blocks - 1) * d.block_size : 0))
        return impossible("last block");
    if (d.base > DeltaBase::file ||
        (d.base == DeltaBase::none) != !Digest::from_bytes(d.base_content))
        return impossible("base");
    if (d.changed > d.blocks || (d.base == DeltaBase::none && d.changed != d.blocks))
        return impossible("number of changed blocks");
    if (d.signature != kSignatureObject || (d.object && d.object != kContentsObject) ||
        (!d.object && d.base != DeltaBase::none))
        return impossible("list of objects");
    return {};
}

} // namespace

uint32_t About::last_block() const
{
    return blocks() ? uint32_t(size - (blocks() - 1) * block_size) : 0;
}

Result<About> about_of(Image &image)
{
    std::optional<About> out;
    std::optional<Error> wrong;
    auto ok = image.for_each<Delta>([&](const Delta &d) {
        if (auto good = check(d); !good || out)
            wrong = good ? damaged("it has two records DELTA") : good.error();
        out = About{.series = Digest::from_bytes(d.series),
                    .number = d.number,
                    .base_number = d.base_number,
                    .base = d.base,
                    .block_size = d.block_size,
                    .size = d.size,
                    .changed = d.changed,
                    .content = Digest::from_bytes(d.content),
                    .base_content = Digest::from_bytes(d.base_content),
                    .base_size = d.base_size,
                    .has_contents = d.object != 0,
                    .name = std::string(d.name),
                    .mode = d.mode & 07777,
                    .modified = d.modified};
    });
    if (!ok)
        return ok.error();
    if (wrong)
        return wrong->within(image.name());
    if (!out || image.header().role != Role::file)
        return damaged(image.name() + ": is no version of a file; cr_inspect tells what it is");
    if (image.header().is_delta() != (out->base != DeltaBase::none))
        return damaged(image.name() + ": header and record disagree about its base");
    return std::move(*out);
}

Result<std::unique_ptr<Version>> Version::open(const std::string &path, FindBase find_base)
{
    auto image = Image::open(path, {.find_base = std::move(find_base)});
    if (!image)
        return image.error();
    std::unique_ptr<Version> version(new Version(std::move(*image)));
    if (auto ok = version->load(); !ok)
        return ok.error();
    return version;
}

Result<void> Version::load()
{
    auto about = about_of(*image_);
    if (!about)
        return about.error();
    about_ = std::move(*about);
    auto ok = check_signature_object();
    if (ok && about_.has_contents)
        ok = find_runs();
    if (!ok)
        return ok.error().within(name());
    return {};
}

// Digests cannot be packed and are never zero: all of them occupy bytes in the file, so no number
// in it can cause a larger allocation.
Result<void> Version::check_signature_object()
{
    auto pages = cover(*image_, kSignatureObject, page_count(about_.changed * sizeof(Digest)));
    if (!pages)
        return pages.error();
    if (std::ranges::any_of(*pages, [](const PageRun &r) { return r.kind != ExtentKind::data; }))
        return damaged("its signature is not in it");
    return {};
}

Result<void> Version::find_runs()
{
    auto pages = cover(*image_, kContentsObject, page_count(about_.size));
    if (!pages)
        return pages.error();
    const uint64_t per_block = about_.block_size / kPageSize;
    const uint64_t all = page_count(about_.size);
    uint64_t changed = 0;
    for (const PageRun &r : *pages) {
        bool ours = r.kind != ExtentKind::base;
        if (!runs_.empty() && runs_.back().changed == ours) {
            // Data and zero extents of one run may meet inside a block.
            runs_.back().count =
                (r.first + r.count + per_block - 1) / per_block - runs_.back().first;
            continue;
        }
        if (r.first % per_block)
            return damaged(fmt::format("page {} begins no block", r.first));
        runs_.push_back({.first = r.first / per_block,
                         .count = (r.count + per_block - 1) / per_block,
                         .changed = ours});
        if (!ours && r.count % per_block && r.first + r.count != all)
            return damaged(fmt::format("page {} ends no block", r.first + r.count));
    }
    for (const BlockRun &r : runs_)
        changed += r.changed ? r.count : 0;
    if (changed != about_.changed)
        return damaged(
            fmt::format("it has {} changed blocks and says {}", changed, about_.changed));
    return {};
}

// Bounds the size that a version claims by the size of its base.
bool Version::refers_within(uint64_t base_blocks) const
{
    return std::ranges::all_of(
        runs_, [&](const BlockRun &r) { return r.changed || r.first + r.count <= base_blocks; });
}

Result<unsigned> Version::check_chain()
{
    unsigned count = 1;
    About about = about_;
    Image *image = image_.get();
    for (; about.base == DeltaBase::image; count++) {
        if (count >= kMaxDeltaDepth)
            return Error(ELOOP, name() + ": too many images are based on each other");
        auto base = image->base();
        if (!base)
            return base.error();
        auto below = about_of(**base);
        if (!below)
            return below.error();
        if (below->content != about.base_content || below->size != about.base_size ||
            below->block_size != about.block_size || !below->has_contents)
            return damaged(fmt::format("{}: its base {} has other contents than it had",
                                       image->name(), (*base)->name()));
        if (image == image_.get() && !refers_within(below->blocks()))
            return damaged(name() + ": has blocks that its base lacks");
        image = *base;
        about = std::move(*below);
    }
    if (about.base == DeltaBase::file && count > 1)
        return damaged(name() + ": its base is based on a plain file");
    return count;
}

Result<std::vector<Digest>> Version::partial_signature()
{
    std::vector<Digest> out(page_count(about_.changed * sizeof(Digest)) * kPageSize /
                            sizeof(Digest));
    auto ok = image_->read_pages(kSignatureObject, 0,
                                 {reinterpret_cast<uint8_t *>(out.data()), out.size() * 16});
    if (!ok)
        return ok.error();
    out.resize(about_.changed);
    return out;
}

Result<Signature> Version::signature(const Signature *base)
{
    auto partial = partial_signature();
    if (!partial)
        return partial.error();
    Signature out{.block_size = about_.block_size, .size = about_.size, .blocks = {}};
    if (about_.base == DeltaBase::none) {
        out.blocks = std::move(*partial);
    } else {
        if (!base || base->content() != about_.base_content)
            return Error(ESTALE, name() + ": the signature is not that of its base");
        size_t next = 0;
        for (const BlockRun &r : runs_) {
            if (!r.changed && r.first + r.count > base->blocks.size())
                return damaged(name() + ": has blocks that its base lacks");
            const Digest *from = r.changed ? partial->data() + next : &base->blocks[r.first];
            out.blocks.insert(out.blocks.end(), from, from + r.count);
            next += r.changed ? r.count : 0;
        }
    }
    if (out.content() != about_.content)
        return damaged(name() + ": its signature is not that of its contents");
    return out;
}

} // namespace cryo::delta
