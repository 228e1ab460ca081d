// SPDX-License-Identifier: Apache-2.0
//
// Arbitrary bytes as an image, through every way of reading one. There must be no crash, no hang,
// no memory beyond the buffers, and no access out of bounds.
//
// Environment: CRYO_FUZZ_FILE, the file that holds the bytes; CRYO_FUZZ_BASE, the image on which
// deltas are based.
#include <fcntl.h>
#include <unistd.h>

#include "environment.hpp"
#include "image/records.hpp"
#include "image/snapshot.hpp"
#include "image/stream_reader.hpp"

using namespace cryo;
using namespace cryo::image;

namespace {

std::string file;
std::string base_file;

struct Sum {
    uint64_t value = 0;

    template <class T>
    void operator()(const char *, const T &field, Show = Show::decimal)
    {
        if constexpr (std::is_same_v<T, std::string_view>)
            add(as_bytes(field));
        else if constexpr (is_list<T>)
            for (size_t i = 0; i < field.size(); i++)
                value += uint64_t(field[i]);
        else if constexpr (std::is_enum_v<T>)
            value += uint64_t(field);
        else if constexpr (std::is_integral_v<T>)
            value += uint64_t(field);
        else
            add(Bytes(field));
    }
    void add(Bytes bytes)
    {
        for (uint8_t b : bytes)
            value += b;
    }
};

// Touches every byte that a record's fields point to.
uint64_t read_fields(const RecordView &view)
{
    Sum sum;
    with_record_type(view.type, [&]<class R>() {
        R record;
        if (decode(view.payload, record))
            R::fields(record, sum);
    });
    return sum.value;
}

void read_some_pages(Image &image)
{
    std::vector<uint8_t> pages(6 * kPageSize);
    unsigned left = 8;
    (void)image.extents([&](const Extent &e) -> Result<void> {
        if (left-- == 0)
            return Error(ECANCELED, "enough");
        uint64_t from = e.page > 1 ? e.page - 2 : 0;
        (void)image.read_pages(e.object, from, pages);
        (void)image.mappable(e.object, e.page);
        (void)image.find(e.object, e.end());
        return {};
    });
}

Result<std::shared_ptr<Image>> find_base(const Digest &)
{
    auto image = Image::open(base_file);
    if (!image)
        unusable("the base image");
    return std::shared_ptr<Image>(std::move(*image));
}

void read_image(Access access)
{
    auto image = Image::open(file, {.access = access, .find_base = find_base});
    if (!image)
        return;
    (void)(*image)->records([&](const RecordView &view) -> Result<void> {
        (void)read_fields(view);
        return {};
    });
    (void)(*image)->statistics();
    read_some_pages(**image);
    (void)(*image)->verify();
}

void read_snapshot()
{
    auto snapshot = Snapshot::open(file, {.find_base = find_base});
    if (!snapshot || (*snapshot)->is_plain())
        return;
    for (const SnapshotMember &m : (*snapshot)->members())
        (void)(*snapshot)->open_member(m);
}

void read_stream(int fd)
{
    lseek(fd, 0, SEEK_SET);
    StreamReader reader(fd, "stream");
    for (;;) {
        auto item = reader.next();
        if (!item || item->kind == StreamItem::Kind::end_of_stream)
            return;
        if (item->kind == StreamItem::Kind::record)
            (void)read_fields(item->record);
        Sum sum;
        sum.add(item->pages);
    }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
    file = from_environment("CRYO_FUZZ_FILE");
    base_file = from_environment("CRYO_FUZZ_BASE");
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Fd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd || ftruncate(fd.get(), off_t(size)) ||
        (size && pwrite(fd.get(), data, size, 0) != ssize_t(size)))
        unusable("the file of the fuzzer");
    read_image(Access::pread);
    read_image(Access::map);
    read_snapshot();
    read_stream(fd.get());
    return 0;
}
