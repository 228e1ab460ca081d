// SPDX-License-Identifier: Apache-2.0
//
// Memory use is bounded, whatever the size of the image and whatever a file claims. All allocations
// by new and malloc of this program are counted, and its segments.
#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <malloc.h>
#include <new>

#include "sample.hpp"

namespace {

std::atomic<size_t> now = 0;
std::atomic<size_t> peak = 0;

void note(size_t size)
{
    size_t sum = now += size;
    size_t seen = peak;
    while (sum > seen && !peak.compare_exchange_weak(seen, sum))
        ;
}

} // namespace

void *operator new(size_t size)
{
    void *p = malloc(size);
    if (!p)
        throw std::bad_alloc();
    note(malloc_usable_size(p));
    return p;
}

void operator delete(void *p) noexcept
{
    if (p)
        now -= malloc_usable_size(p);
    free(p);
}

void operator delete(void *p, size_t) noexcept
{
    operator delete(p);
}

namespace cryo::image {
namespace {

// Peak of the bytes that `f` allocates.
template <class F>
size_t peak_of(F &&f)
{
    size_t before = now;
    peak = before;
    f();
    return peak - before;
}

constexpr size_t MiB = 1 << 20;
// Segments are mapped, not allocated: three, and 1 MiB used of the pending output.
constexpr size_t kSegmentsOfAWriter = 3 * kSegmentData + MiB;

// The worst case for the index: each page is its own extent, interleaved with new records.
void write_scattered(const std::string &path, uint64_t pages, const WriterOptions &options)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    auto writer = ImageWriter::create(std::move(*sink), options);
    std::vector<uint8_t> page(kPageSize, 1);
    std::vector<uint8_t> record(5000, 2);
    for (uint64_t i = 0; i < pages; i++) {
        ASSERT_TRUE((*writer)->add_pages(0, 2 * i, page));
        if (i % 16 == 0) {
            ASSERT_TRUE((*writer)->add_record(RecordType(1000), 1, 0, record));
        }
    }
    auto done = (*writer)->commit();
    ASSERT_TRUE(done) << done.error().text();
}

TEST(Memory, OfAWriterIsBounded)
{
    Scratch dir;
    for (unsigned threads : {1u, 4u}) {
        for (Packing packing : {Packing::raw, Packing::shuffle_lz4}) {
            WriterOptions options{.packing = packing, .threads = threads};
            size_t used = peak_of([&] { write_scattered(dir / "image", 60000, options); });
            // A worker holds one package packed and one shuffled.
            size_t workers = threads * 2 * kMaxPackageBlocks * kPageSize;
            EXPECT_LE(used + kSegmentsOfAWriter, 16 * MiB + workers) << threads;
        }
    }
}

TEST(Memory, OfAReaderIsBounded)
{
    Scratch dir;
    write_scattered(dir / "image", 60000, {.packing = Packing::lz4});
    for (Access access : {Access::pread, Access::map}) {
        size_t used = peak_of([&] {
            auto image = Image::open(dir / "image", {.access = access});
            ASSERT_TRUE(image) << image.error().text();
            EXPECT_TRUE((*image)->verify().empty());
            std::array<uint8_t, kPageSize> page;
            for (uint64_t i = 0; i < 120000; i += 997) {
                ASSERT_TRUE((*image)->read_pages(0, i, page));
                ASSERT_EQ(page[5], i % 2 ? 0 : 1);
            }
        });
        EXPECT_LE(used, 5 * MiB) << name_of_access(access);
    }
    size_t used = peak_of([&] { EXPECT_EQ(error_of_stream(dir / "image"), ""); });
    EXPECT_LE(used, 3 * MiB);
}

// A stream that claims the largest record and then ends takes almost no memory.
TEST(Memory, ClaimsAreNotBelieved)
{
    Scratch dir;
    write_image(dir / "image", {});
    std::vector<uint8_t> bytes = slurp(dir / "image");
    bytes.resize(kHeaderSize);
    RecordPrefix prefix{.type = RecordType(1000), .length = kMaxRecord};
    auto encoded = prefix.encode({});
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
    bytes.resize(bytes.size() + 10);
    spew(dir / "claim", bytes);
    size_t used = peak_of([&] { EXPECT_NE(error_of_stream(dir / "claim"), ""); });
    EXPECT_LE(used, 64 * 1024u);
}

} // namespace
} // namespace cryo::image
