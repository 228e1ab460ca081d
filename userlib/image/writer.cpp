// SPDX-License-Identifier: Apache-2.0
#include "image/writer.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>

namespace cryo::image {

namespace {

constexpr size_t kMetadataBatch = 256 * 1024;
constexpr unsigned kMaxThreads = 8;

unsigned default_threads(Packing packing)
{
    if (packing == Packing::raw) // one thread checksums faster than any disk writes
        return 1;
    return std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
}

Result<Digest> random_id()
{
    std::array<uint8_t, 16> bytes;
    if (getrandom(bytes.data(), bytes.size(), 0) != ssize_t(bytes.size()))
        return Error::from_errno("a random image id", errno);
    return Digest::from_bytes(bytes);
}

std::string kernel_release()
{
    utsname u;
    return uname(&u) == 0 ? u.release : "";
}

} // namespace

ImageWriter::ImageWriter(std::unique_ptr<Sink> sink, const WriterOptions &options,
                         const Header &header)
    : sink_(std::move(sink)), options_(options), header_(header),
      segment_({.package_blocks = options.package_blocks,
                .may_be_raw = options.packing == Packing::raw || options.packing == Packing::spare,
                .find_zero_pages = options.find_zero_pages}),
      output_(*sink_, header_, options.index_part)
{
    PlaceableFile *file = options.packing == Packing::raw ? sink_->placeable() : nullptr;
    if (file != nullptr)
        placed_.emplace(*file, output_, header_.package_bytes(), options.find_zero_pages);
}

ImageWriter::~ImageWriter() = default;

Result<std::unique_ptr<ImageWriter>> ImageWriter::create(std::unique_ptr<Sink> sink,
                                                         const WriterOptions &options)
{
    if (options.package_blocks < kMinPackageBlocks || options.package_blocks > kMaxPackageBlocks)
        return Error(EINVAL, fmt::format("packages have {} to {} blocks, not {}", kMinPackageBlocks,
                                         kMaxPackageBlocks, options.package_blocks));
    auto id = random_id();
    if (!id)
        return id.error();
    Header h;
    h.role = options.role;
    h.package_blocks = options.package_blocks;
    h.features = options.features;
    h.hints = options.hints;
    h.id = *id;
    if (options.base) {
        h.base_id = options.base->id;
        h.base_checksum = options.base->checksum;
    }
    h.created = clock_ns(CLOCK_REALTIME);
    h.kernel = kernel_release();

    std::unique_ptr<ImageWriter> w(new ImageWriter(std::move(sink), options, h));
    if (auto ok = w->output_.begin(); !ok)
        return ok.error();

    unsigned threads = options.threads ? options.threads : default_threads(options.packing);
    w->pipeline_ = std::make_unique<Pipeline>(
        Pipeline::Options{.packing = options.packing,
                          .threads = options.synchronous ? 0 : threads,
                          .package_bytes = h.package_bytes()},
        [self = w.get()](Batch &batch) { return self->output_.write(batch); });
    return w;
}

Result<void> ImageWriter::ready(uint64_t first_page, uint64_t count)
{
    if (failed_)
        return *failed_;
    if (finished_)
        return Error(EINVAL, "the image has been committed");
    if (first_page > kMaxPage || count > kMaxPage - first_page)
        return Error(EINVAL, fmt::format("no object has a page {:#x}", first_page));
    return {};
}

Result<void> ImageWriter::add_record(RecordType type, uint16_t version, uint16_t flags,
                                     Bytes payload)
{
    if (auto ok = ready(0, 0); !ok)
        return ok;
    if (type >= RecordType::segment && type <= RecordType::footer)
        return Error(EINVAL, fmt::format("{} is for the writer itself to add", describe(type)));
    if (payload.size() > kMaxRecord)
        return Error(EMSGSIZE, fmt::format("{} of {} bytes; the limit is {}", describe(type),
                                           payload.size(), kMaxRecord));
    if (metadata_.size() + kPrefixSize + payload.size() > kMetadataBatch)
        if (auto ok = flush_metadata(); !ok)
            return ok;
    RecordPrefix prefix{.type = type, .version = version, .flags = flags, .length = payload.size()};
    auto encoded = prefix.encode(payload);
    metadata_.insert(metadata_.end(), encoded.begin(), encoded.end());
    metadata_.insert(metadata_.end(), payload.begin(), payload.end());
    records_ += !prefix.is_structure();
    return {};
}

Result<void> ImageWriter::flush_metadata()
{
    if (metadata_.empty())
        return {};
    if (auto ok = check_placed(); !ok)
        return ok;
    auto ok = pipeline_->submit({.metadata = std::exchange(metadata_, {})});
    if (!ok)
        failed_ = ok.error();
    return ok;
}

Result<void> ImageWriter::add_pages(uint32_t object, uint64_t first_page, Bytes pages)
{
    if (pages.size() % kPageSize)
        return Error(EINVAL, "the number of bytes is no multiple of the page size");
    while (!pages.empty()) {
        // One package at most at a time: it is still in the cache when its checksum is taken.
        auto space =
            page_space(std::min<uint64_t>(pages.size() / kPageSize, header_.package_blocks));
        if (!space)
            return space.error();
        memcpy(space->data(), pages.data(), space->size());
        uint64_t count = space->size() / kPageSize;
        if (auto ok = take_pages(object, first_page, count); !ok)
            return ok;
        pages = pages.subspan(space->size());
        first_page += count;
    }
    return {};
}

Result<void> ImageWriter::add_zero(uint32_t object, uint64_t first_page, uint64_t count)
{
    return add_extent({object, ExtentKind::zero, first_page, count, 0});
}

Result<void> ImageWriter::add_base(uint32_t object, uint64_t first_page, uint64_t count,
                                   uint64_t base_page)
{
    if (!options_.base)
        return Error(EINVAL, "an image without a base cannot refer to it");
    if (base_page > kMaxPage || count > kMaxPage - base_page)
        return Error(EINVAL, fmt::format("no object has a page {:#x}", base_page));
    return add_extent({object, ExtentKind::base, first_page, count, base_page});
}

Result<void> ImageWriter::add_extent(const Extent &extent)
{
    if (auto ok = ready(extent.page, extent.count); !ok)
        return ok;
    if (extent.count == 0)
        return {};
    if (segment_.extend(extent))
        return {};
    if (auto ok = make_room(1); !ok)
        return ok;
    segment_.add(extent);
    return {};
}

// Makes room in the segment's table of extents.
Result<void> ImageWriter::make_room(size_t extents)
{
    if (segment_.has_room(extents))
        return {};
    return seal(false);
}

Result<MutableBytes> ImageWriter::page_space(uint64_t want)
{
    if (auto ok = ready(0, want); !ok)
        return ok.error();
    constexpr size_t room = 64; // extents: few enough to leave space, enough to be worth a call
    if (auto ok = make_room(room); !ok)
        return ok.error();
    if (!segment_.has_memory()) {
        auto memory = pipeline_->memory();
        if (!memory) {
            failed_ = memory.error();
            return memory.error();
        }
        segment_.set_memory(std::move(*memory));
    }
    return segment_.space(want);
}

Result<void> ImageWriter::take_pages(uint32_t object, uint64_t first_page, uint64_t count)
{
    if (auto ok = ready(first_page, count); !ok)
        return ok;
    blocks_in_.fetch_add(count, std::memory_order_relaxed);
    segment_.take(object, first_page, count);
    if (segment_.is_full())
        return seal(false);
    return {};
}

// Submits what has been collected.
Result<void> ImageWriter::seal(bool last)
{
    if (auto ok = check_placed(); !ok)
        return ok;
    std::unique_ptr<SegmentMemory> next;
    if (segment_.moves_blocks(last)) {
        auto memory = pipeline_->memory();
        if (!memory) {
            failed_ = memory.error();
            return memory.error();
        }
        next = std::move(*memory);
    }
    Batch batch = segment_.cut(last, std::move(next));
    batch.metadata = std::exchange(metadata_, {});
    auto ok = pipeline_->submit(std::move(batch));
    if (!ok)
        failed_ = ok.error();
    return ok;
}

// Waits until the output stage is idle; the caller's thread owns its state until check_placed().
Result<void> ImageWriter::begin_placing()
{
    if (before_placing() != 0)
        return Error(EINVAL, "pages cannot be placed behind an incomplete package");
    if (auto ok = seal(false); !ok)
        return ok;
    if (auto ok = pipeline_->drain(); !ok)
        return ok;
    return placed_->begin();
}

Result<uint64_t> ImageWriter::place_pages(uint32_t object, std::span<const PageRun> runs)
{
    uint64_t blocks = 0;
    for (const PageRun &run : runs) {
        if (auto ok = ready(run.page, run.count); !ok)
            return ok.error();
        blocks += run.count;
    }
    if (!placed_ || blocks == 0 || blocks > segment_.capacity() || runs.size() > placed_runs ||
        blocks % header_.package_blocks != 0)
        return Error(EINVAL, "these pages cannot be placed");
    if (!placed_->is_begun() || segment_.blocks() != 0) { // pages taken before come first
        if (auto ok = begin_placing(); !ok) {
            failed_ = ok.error();
            return ok.error();
        }
    }
    blocks_in_.fetch_add(blocks, std::memory_order_relaxed);
    auto offset = placed_->add(segment_.placed(object, runs));
    if (!offset)
        failed_ = offset.error();
    return offset;
}

Result<void> ImageWriter::check_placed()
{
    auto ok = placed_ ? placed_->check() : Result<void>();
    if (!ok)
        failed_ = ok.error();
    return ok;
}

Result<Committed> ImageWriter::commit()
{
    if (auto ok = ready(0, 0); !ok)
        return ok.error();
    finished_ = true;
    auto ok = seal(true);
    if (ok)
        ok = pipeline_->drain();
    if (!ok) {
        failed_ = ok.error();
        return ok.error();
    }
    // The output stage is idle: no other thread uses its state.
    const auto footer = output_.finish(records_, segment_.first_block());
    ok = footer ? sink_->commit() : footer.error();
    if (!ok) {
        failed_ = ok.error();
        return ok.error();
    }
    return Committed{.id = header_.id,
                     .checksum = footer->checksum,
                     .size = footer->length,
                     .blocks = footer->blocks,
                     .stored = footer->stored};
}

} // namespace cryo::image
