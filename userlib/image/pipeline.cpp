// SPDX-License-Identifier: Apache-2.0
#include "image/pipeline.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <system_error>

namespace cryo::image {

namespace {

constexpr size_t kHugePage = 2 * 1024 * 1024;

} // namespace

// Uses huge pages where available: two faults instead of a thousand, and O_DIRECT pins two pages
// per segment.
Result<std::unique_ptr<SegmentMemory>> SegmentMemory::create()
{
    void *p = mmap(nullptr, kSegmentData + kHugePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return Error::from_errno("memory for a segment of the image", errno);
    auto *begin = static_cast<uint8_t *>(p);
    size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(p) % kHugePage) % kHugePage;
    if (skip)
        munmap(begin, skip);
    if (skip < kHugePage)
        munmap(begin + skip + kSegmentData, kHugePage - skip);
    madvise(begin + skip, kSegmentData, MADV_HUGEPAGE);
    return std::unique_ptr<SegmentMemory>(new SegmentMemory(begin + skip));
}

SegmentMemory::~SegmentMemory()
{
    munmap(base_, kSegmentData);
}

Pipeline::Pipeline(const Options &options, Output output)
    : options_(options), output_(std::move(output))
{
    if (options_.threads == 0 || !start_threads())
        inline_packer_ = std::make_unique<Packer>(options_.packing);
}

// False: no threads run. If a limit forbids more threads, fewer workers than asked for suffice.
bool Pipeline::start_threads()
{
    try {
        threads_.emplace_back([this] { write(); });
        for (unsigned i = 0; i < options_.threads; i++)
            threads_.emplace_back([this] { work(); });
    } catch (const std::system_error &) {
        if (threads_.size() < 2) {
            end_threads();
            stop_ = false;
            return false;
        }
    }
    return true;
}

Pipeline::~Pipeline()
{
    end_threads();
}

void Pipeline::end_threads()
{
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    for (std::thread &t : threads_)
        t.join();
    threads_.clear();
}

Result<std::unique_ptr<SegmentMemory>> Pipeline::memory()
{
    std::unique_lock lock(mutex_);
    if (free_.empty() && allocated_ < kSegments) {
        allocated_++;
        lock.unlock();
        return SegmentMemory::create();
    }
    if (free_.empty() && !error_) {
        waits_++;
        is_waited_for_ = true;
        changed_.wait(lock, [this] { return !free_.empty() || error_; });
        is_waited_for_ = false;
    }
    if (error_)
        return *error_;
    auto memory = std::move(free_.back());
    free_.pop_back();
    return memory;
}

Result<void> Pipeline::submit(Batch batch)
{
    batch.packages.resize((batch.bytes + options_.package_bytes - 1) / options_.package_bytes);
    std::unique_lock lock(mutex_);
    // Metadata without pages holds no segment: bound its number as well.
    changed_.wait(lock, [this] { return queue_.size() < kSegments || error_; });
    if (error_)
        return *error_;
    if (!threads_.empty()) {
        queue_.push_back(std::move(batch));
        changed_.notify_all();
        return {};
    }
    packs(batch);
    for (size_t i = 0; i < batch.packages.size(); i++)
        place(batch, i, pack(batch, i, *inline_packer_));
    auto ok = output_(batch);
    if (!ok)
        error_ = ok.error();
    if (batch.memory)
        free_.push_back(std::move(batch.memory));
    return ok;
}

Result<void> Pipeline::drain()
{
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() || error_; });
    if (error_)
        return *error_;
    return {};
}

// With the lock held. All workers pack in parallel, so their rates add up; the measured times
// include delays by other load on the processors.
bool Pipeline::packs(Batch &batch) const
{
    if (batch.claimed > 0) // workers may be reading it
        return batch.is_packed;
    if (options_.packing != Packing::spare)
        return batch.is_packed = true;
    constexpr unsigned enough = 2;
    constexpr double quicker = 1.5;
    const double packing =
        double(packing_.bytes) * options_.threads * double(std::max<uint64_t>(writing_.ns, 1));
    const double writing = double(writing_.bytes) * double(std::max<uint64_t>(packing_.ns, 1));
    const bool is_quicker = packing_.ns == 0 || packing > quicker * writing;
    return batch.is_packed = waits_ >= enough && is_quicker;
}

Packer::Packed Pipeline::pack(Batch &batch, size_t i, Packer &packer) const
{
    size_t from = i * options_.package_bytes;
    Bytes pages =
        batch.memory->data().subspan(from, std::min(options_.package_bytes, batch.bytes - from));
    Packer::Packed packed =
        batch.is_packed ? packer.pack(pages) : Packer::Packed{Codec::raw, pages};
    const bool known = packed.codec == Codec::raw && i < batch.raw_checksums.size();
    batch.packages[i] = {.stored = uint32_t(packed.bytes.size()),
                         .codec = packed.codec,
                         .checksum = known ? batch.raw_checksums[i] : checksum128(packed.bytes)};
    return packed;
}

// Puts package i after package i − 1, in place: what it overwrites belongs to packages up to i,
// all of which have been read by then. The data begins on a page boundary of the image, so
// offsets in memory and in the image are aligned alike.
void Pipeline::place(Batch &batch, size_t i, const Packer::Packed &packed)
{
    MutableBytes data = batch.memory->data();
    size_t at = package_start(batch.stored, batch.packages[i].codec);
    std::fill(data.begin() + long(batch.stored), data.begin() + long(at), uint8_t(0));
    if (data.data() + at != packed.bytes.data())
        memmove(data.data() + at, packed.bytes.data(), packed.bytes.size());
    batch.stored = at + packed.bytes.size();
}

bool Pipeline::is_ahead()
{
    const std::lock_guard lock(mutex_);
    const auto is_packed = [](const Batch &b) { return b.placed == b.packages.size(); };
    return is_waited_for_ && free_.empty() && std::ranges::all_of(queue_, is_packed);
}

// The first batch with a package that no worker has taken. With the lock held.
Batch *Pipeline::next_to_pack()
{
    for (Batch &b : queue_)
        if (b.claimed < b.packages.size())
            return &b;
    return nullptr;
}

void Pipeline::work()
{
    Packer packer(options_.packing);
    std::unique_lock lock(mutex_);
    for (;;) {
        Batch *batch = nullptr;
        changed_.wait(lock, [&] { return stop_ || (batch = next_to_pack()); });
        if (stop_)
            return;
        is_packing_ = packs(*batch);
        size_t i = batch->claimed++;
        lock.unlock();
        const uint64_t begun = now_ns();
        Packer::Packed packed = pack(*batch, i, packer);
        const uint64_t took = now_ns() - begun;
        lock.lock();
        if (batch->is_packed) {
            packing_.bytes += options_.package_bytes;
            packing_.ns += took;
        }
        // Packages are taken in order, so another worker has the previous one.
        changed_.wait(lock, [&] { return batch->placed == i; });
        lock.unlock();
        place(*batch, i, packed);
        lock.lock();
        batch->placed++;
        changed_.notify_all();
    }
}

void Pipeline::write()
{
    std::unique_lock lock(mutex_);
    const auto has_one = [this] {
        return !queue_.empty() && queue_[0].placed == queue_[0].packages.size();
    };
    for (;;) {
        if (!has_one() && !is_packing_)
            waits_ = 0;
        changed_.wait(lock, [&] { return stop_ || has_one(); });
        if (stop_)
            return;
        Batch &batch = queue_.front(); // a deque does not move it when others are added
        lock.unlock();
        const uint64_t begun = now_ns();
        auto ok = output_(batch);
        const uint64_t took = now_ns() - begun;
        lock.lock();
        if (batch.stored > 0) {
            writing_.bytes += batch.stored;
            writing_.ns += took;
        }
        if (batch.memory)
            free_.push_back(std::move(batch.memory));
        if (!ok) {
            error_ = ok.error();
            stop_ = true;
        }
        queue_.pop_front();
        changed_.notify_all();
    }
}

} // namespace cryo::image
