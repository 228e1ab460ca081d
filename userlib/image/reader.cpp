// SPDX-License-Identifier: Apache-2.0
#include "image/reader.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>

#include "image/records.hpp"

namespace cryo::image {

Result<Run> Image::find(uint32_t object, uint64_t page)
{
    if (page >= kMaxPage)
        return Error(EINVAL, fmt::format("no object has a page {:#x}", page));
    Run run{.count = kMaxPage - page};
    for (size_t i = 0; i < parts_.size(); i++) {
        const PartEntry &e = parts_[i];
        if (object < e.first_object || object > e.last_object ||
            (object == e.last_object && page >= e.end_page))
            continue; // nothing of this object at or after the page
        auto loaded = part(i);
        if (!loaded)
            return failure(loaded.error());
        size_t at = (*loaded)->lower_bound(object, page);
        if (at == (*loaded)->extent_count())
            continue;
        Extent extent = (*loaded)->extent(at);
        if (extent.object != object)
            continue;
        if (extent.page <= page) {
            uint64_t skip = page - extent.page;
            return Run{.hole = false,
                       .kind = extent.kind,
                       .count = extent.count - skip,
                       .source = extent.kind == ExtentKind::zero ? 0 : extent.source + skip};
        }
        run.count = std::min(run.count, extent.page - page);
    }
    return run;
}

Result<void> Image::extents(const std::function<Result<void>(const Extent &)> &f)
{
    for (size_t i = 0; i < parts_.size(); i++) {
        auto loaded = part(i);
        for (size_t j = 0; loaded && j < (*loaded)->extent_count(); j++) {
            if (auto ok = f((*loaded)->extent(j)); !ok)
                return ok;
            // f may have evicted the part, and even have had it loaded again.
            if (&loaded_.back()->view != *loaded)
                loaded = part(i);
        }
        if (!loaded)
            return failure(loaded.error());
    }
    return {};
}

Result<const IndexPart *> Image::part_of_package(uint64_t number)
{
    auto above = std::ranges::upper_bound(parts_, number, {}, &PartEntry::first_package);
    return part(size_t(above - parts_.begin()) - 1);
}

Result<std::pair<Package, uint64_t>> Image::package_of(uint64_t block)
{
    if (block >= footer_.blocks)
        return damaged(fmt::format("the index refers to block {} of {}", block, footer_.blocks));
    uint64_t number = block / header_.package_blocks;
    auto loaded = part_of_package(number);
    if (!loaded)
        return loaded.error();
    Package p = (*loaded)->package(size_t(number - (*loaded)->first_package()));
    if (p.offset > footer_.length || p.stored > footer_.length - p.offset)
        return damaged(fmt::format("package {} lies outside the image", number));
    return std::pair(p, number);
}

size_t Image::package_size(uint64_t number) const
{
    uint64_t first = number * header_.package_blocks;
    return std::min<uint64_t>(header_.package_blocks, footer_.blocks - first) * kPageSize;
}

// Loads a package and unpacks it; `out` has its unpacked size.
Result<void> Image::load_package(uint64_t number, const Package &package, MutableBytes out)
{
    packages_loaded_++;
    bool raw = package.codec == Codec::raw;
    if (raw && package.stored != out.size())
        return damaged(fmt::format("package {} has an impossible size", number));
    if (!raw)
        stored_.resize(header_.package_bytes());
    if (package.stored > header_.package_bytes())
        return damaged(fmt::format("package {} is larger than a package", number));
    auto stored =
        source_.fetch(start_ + package.offset, package.stored, raw ? out : MutableBytes(stored_));
    if (!stored)
        return stored.error();
    if (checksum128(*stored) != package.checksum)
        return damaged(
            fmt::format("package {} at {} is damaged (checksum)", number, package.offset));
    if (raw && stored->data() == out.data())
        return {};
    if (!unpacker_.unpack(package.codec, *stored, out))
        return damaged(fmt::format("package {} at {} cannot be unpacked", number, package.offset));
    return {};
}

Result<void> Image::read_blocks(uint64_t block, MutableBytes out)
{
    while (!out.empty()) {
        auto found = package_of(block);
        if (!found)
            return found.error();
        auto [package, number] = *found;
        size_t size = package_size(number);
        size_t skip = size_t(block % header_.package_blocks) * kPageSize;
        size_t take = std::min(size - skip, out.size());
        if (take == size) {
            if (auto ok = load_package(number, package, out.first(size)); !ok)
                return ok;
        } else {
            if (package_number_ != number) {
                package_number_ = UINT64_MAX;
                package_.resize(header_.package_bytes());
                if (auto ok = load_package(number, package, MutableBytes(package_).first(size));
                    !ok)
                    return ok;
                package_number_ = number;
            }
            memcpy(out.data(), package_.data() + skip, take);
        }
        out = out.subspan(take);
        block += take / kPageSize;
    }
    return {};
}

Result<void> Image::read_pages(uint32_t object, uint64_t page, MutableBytes out)
{
    return read_pages(object, page, out, 0);
}

Result<void> Image::read_pages(uint32_t object, uint64_t page, MutableBytes out, unsigned depth)
{
    // Images cannot be based on each other in a circle, but forged ones might.
    if (depth == kMaxDeltaDepth)
        return failure(
            Error(ELOOP, fmt::format("more than {} images are based on each other in a row",
                                     kMaxDeltaDepth)));
    if (out.size() % kPageSize)
        return Error(EINVAL, "the number of bytes is no multiple of the page size");
    while (!out.empty()) {
        auto run = find(object, page);
        if (!run)
            return run.error();
        size_t size = size_t(std::min<uint64_t>(run->count, out.size() / kPageSize)) * kPageSize;
        MutableBytes now = out.first(size);
        if (run->hole || run->kind == ExtentKind::zero) {
            memset(now.data(), 0, size);
        } else if (run->kind == ExtentKind::data) {
            if (auto ok = read_blocks(run->source, now); !ok)
                return failure(ok.error());
        } else {
            auto below = base();
            if (!below)
                return below.error();
            if (auto ok = (*below)->read_pages(object, run->source, now, depth + 1); !ok)
                return ok;
        }
        out = out.subspan(size);
        page += size / kPageSize;
    }
    return {};
}

bool Image::is_in_file_of(const Image &other) const
{
    struct stat own;
    struct stat its;
    return fstat(fd(), &own) == 0 && fstat(other.fd(), &its) == 0 && own.st_dev == its.st_dev &&
           own.st_ino == its.st_ino;
}

Result<Mappable> Image::mappable(uint32_t object, uint64_t page)
{
    auto run = find(object, page);
    if (!run)
        return run.error();
    if (!run->hole && run->kind == ExtentKind::base && base_ && base_->is_in_file_of(*this)) {
        auto below = base_->mappable(object, run->source);
        if (below)
            below->count = std::min(below->count, run->count);
        return below;
    }
    if (run->hole || run->kind != ExtentKind::data)
        return Mappable{};
    Mappable out;
    while (out.count < run->count) {
        const uint64_t block = run->source + out.count;
        auto found = package_of(block);
        if (!found)
            return failure(found.error());
        const auto &[package, number] = *found;
        if (package.codec != Codec::raw)
            break;
        const uint64_t size = package_size(number);
        auto part = part_of_package(number);
        if (!part)
            return failure(part.error());
        const uint64_t row = (*part)->raw_row(size_t(number - (*part)->first_package()), size);
        if (package.offset % kPageSize || package.stored != size ||
            row * size > footer_.length - package.offset)
            return failure(
                damaged(fmt::format("package {} is not where it can be mapped", number)));
        const uint64_t skip = block % header_.package_blocks;
        const uint64_t offset = start_ + package.offset + skip * kPageSize;
        if (out.count == 0)
            out.file_offset = offset;
        else if (offset != out.file_offset + out.count * kPageSize)
            break;
        out.count = std::min(run->count, out.count + row * (size / kPageSize) - skip);
    }
    return out;
}

Result<Image *> Image::base()
{
    if (base_)
        return base_.get();
    const std::string what =
        fmt::format("image {}, on which this one is based", header_.base_id.hex());
    if (!header_.is_delta())
        return failure(damaged("it refers to a base image but names none"));
    if (!options_.find_base)
        return failure(Error(ENOENT, what + ", was not given"));
    auto found = options_.find_base(header_.base_id);
    if (!found)
        return failure(found.error().within(what + ", cannot be used"));
    if (Result<void> taken = take_base(std::move(*found)); !taken)
        return taken.error();
    return base_.get();
}

Result<void> Image::take_base(std::shared_ptr<Image> image)
{
    const std::string what =
        fmt::format("image {}, on which this one is based", header_.base_id.hex());
    if (!image || image->header().id != header_.base_id)
        return failure(Error(ESTALE, what + ", was not found"));
    if (image->footer().checksum != header_.base_checksum)
        return failure(Error(ESTALE, fmt::format("{}: {} has this id but not the checksum {}", what,
                                                 image->name(), header_.base_checksum.hex())));
    if (!image->options_.find_base)
        image->options_.find_base = options_.find_base;
    base_ = std::move(image);
    return {};
}

Result<std::vector<Image *>> Image::chain()
{
    std::vector<Image *> all = {this};
    while (all.back()->header_.is_delta()) {
        if (all.size() == kMaxDeltaDepth)
            return failure(
                Error(ELOOP, fmt::format("more than {} images are based on each other in a row",
                                         all.size())));
        auto below = all.back()->base();
        if (!below)
            return below.error();
        all.push_back(*below);
    }
    return all;
}

Result<Statistics> Image::statistics()
{
    Statistics s;
    auto ok = extents([&](const Extent &e) -> Result<void> {
        (e.kind == ExtentKind::data   ? s.data_pages
         : e.kind == ExtentKind::zero ? s.zero_pages
                                      : s.base_pages) += e.count;
        return {};
    });
    if (!ok)
        return ok.error();
    for (size_t i = 0; i < parts_.size(); i++) {
        auto loaded = part(i);
        if (!loaded)
            return failure(loaded.error());
        for (size_t j = 0; j < (*loaded)->package_count(); j++) {
            Package p = (*loaded)->package(j);
            auto c = static_cast<size_t>(p.codec);
            s.packages[c]++;
            s.stored[c] += p.stored;
            s.raw[c] += package_size((*loaded)->first_package() + j);
        }
    }
    return s;
}

} // namespace cryo::image
