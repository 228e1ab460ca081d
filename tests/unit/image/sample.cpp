// SPDX-License-Identifier: Apache-2.0
#include "sample.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fstream>

namespace cryo::image {

PageBytes random_page(std::mt19937_64 &random)
{
    PageBytes page{};
    switch (random() % 5) {
    case 0: // zeros
        break;
    case 1: // incompressible
        for (size_t i = 0; i < kPageSize; i += 8)
            store_le(page.data() + i, uint64_t(random()));
        break;
    case 2: // all bytes equal
        page.fill(uint8_t(random() | 1));
        break;
    case 3: // numbers
        for (size_t i = 0; i < kPageSize; i += 8)
            store_le(page.data() + i, std::bit_cast<uint64_t>(1.0 + double(random() % 1000) / 7));
        break;
    default: // zero but for one byte
        page[random() % kPageSize] = 1;
    }
    return page;
}

Model Model::random(uint64_t seed, size_t most_pages, bool with_base)
{
    std::mt19937_64 r(seed);
    Model m;
    size_t records = r() % 20;
    for (size_t i = 0; i < records; i++) {
        // Types outside the real ones, skippable: only their arrival matters here.
        RawRecord record{.type = RecordType(1000 + r() % 5), .version = uint16_t(1 + r() % 9)};
        record.payload.resize(r() % (i == 0 ? 100000 : 300));
        for (uint8_t &b : record.payload)
            b = uint8_t(r());
        m.records.push_back(record);
    }
    size_t runs = 1 + r() % 20;
    for (size_t i = 0; i < runs; i++) {
        auto object = uint32_t(r() % 3);
        uint64_t page = r() % (i % 2 ? 200 : uint64_t(1) << 36);
        size_t count = 1 + r() % (most_pages / runs + 1);
        bool base = with_base && r() % 3 == 0;
        uint64_t shift = r() % 4 ? 0 : r() % 100;
        for (size_t j = 0; j < count; j++) {
            PageKey key{object, page + j};
            if (m.pages.contains(key) || m.in_base.contains(key))
                continue;
            if (base)
                m.in_base[key] = page + j + shift;
            else
                m.pages[key] = random_page(r);
        }
    }
    return m;
}

// Writes runs of pages in random order, in pieces of random length, with records in between.
void feed_model(ImageWriter &writer, const Model &model, uint64_t seed)
{
    std::mt19937_64 r(seed);
    struct Piece {
        PageKey first;
        std::vector<uint8_t> bytes;
    };
    std::vector<Piece> pieces;
    for (const auto &[key, page] : model.pages) {
        bool continues =
            !pieces.empty() && pieces.back().first.first == key.first &&
            pieces.back().first.second + pieces.back().bytes.size() / kPageSize == key.second &&
            r() % 100;
        if (!continues)
            pieces.push_back({key, {}});
        pieces.back().bytes.insert(pieces.back().bytes.end(), page.begin(), page.end());
    }
    if (r() % 2)
        std::shuffle(pieces.begin(), pieces.end(), r);
    size_t next_record = 0;
    auto add_record = [&] {
        const RawRecord &record = model.records[next_record++];
        auto ok = writer.add_record(record.type, record.version, record.flags, record.payload);
        ASSERT_TRUE(ok) << ok.error().text();
    };
    for (const Piece &piece : pieces) {
        if (next_record < model.records.size() && r() % 2)
            add_record();
        auto ok = writer.add_pages(piece.first.first, piece.first.second, piece.bytes);
        ASSERT_TRUE(ok) << ok.error().text();
    }
    for (const auto &[key, source] : model.in_base) {
        auto ok = writer.add_base(key.first, key.second, 1, source);
        ASSERT_TRUE(ok) << ok.error().text();
    }
    while (next_record < model.records.size())
        add_record();
}

Committed write_image(const std::string &path, const Model &model, const WriterOptions &options,
                      const FileOptions &file)
{
    auto sink = FileSink::create(path, file);
    EXPECT_TRUE(sink) << sink.error().text();
    auto writer = ImageWriter::create(std::move(*sink), options);
    EXPECT_TRUE(writer) << writer.error().text();
    feed_model(**writer, model, std::hash<std::string>{}(path));
    auto done = (*writer)->commit();
    EXPECT_TRUE(done) << done.error().text();
    return done ? *done : Committed{};
}

Model to_model(Image &image)
{
    Model m;
    auto ok = image.records([&](const RecordView &v) -> Result<void> {
        m.records.push_back(
            {v.type, v.version, v.flags, std::vector<uint8_t>(v.payload.begin(), v.payload.end())});
        return {};
    });
    EXPECT_TRUE(ok) << ok.error().text();
    std::vector<uint8_t> bytes;
    ok = image.extents([&](const Extent &e) -> Result<void> {
        if (e.kind == ExtentKind::base) {
            for (uint64_t i = 0; i < e.count; i++)
                m.in_base[{e.object, e.page + i}] = e.source + i;
            return {};
        }
        bytes.resize(e.count * kPageSize);
        if (auto read = image.read_pages(e.object, e.page, bytes); !read)
            return read;
        for (uint64_t i = 0; i < e.count; i++) {
            PageBytes &page = m.pages[{e.object, e.page + i}];
            std::copy_n(bytes.begin() + long(i * kPageSize), kPageSize, page.begin());
        }
        return {};
    });
    EXPECT_TRUE(ok) << ok.error().text();
    return m;
}

Model read_by_index(const std::string &path, Access access)
{
    auto image = Image::open(path, {.access = access});
    EXPECT_TRUE(image) << image.error().text();
    return image ? to_model(**image) : Model{};
}

Model read_as_stream(const std::string &path)
{
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return read_stream(fd.get());
}

Model read_stream(int fd)
{
    StreamReader reader(fd, "stream");
    Model m;
    for (;;) {
        auto item = reader.next();
        EXPECT_TRUE(item) << item.error().text();
        if (!item || item->kind == StreamItem::Kind::end_of_stream)
            return m;
        const Extent &e = item->extent;
        if (item->kind == StreamItem::Kind::record) {
            const RecordView &v = item->record;
            m.records.push_back({v.type, v.version, v.flags,
                                 std::vector<uint8_t>(v.payload.begin(), v.payload.end())});
        } else if (item->kind == StreamItem::Kind::pages) {
            for (uint64_t i = 0; i < e.count; i++)
                std::copy_n(item->pages.begin() + long(i * kPageSize), kPageSize,
                            m.pages[{e.object, e.page + i}].begin());
        } else if (item->kind == StreamItem::Kind::extent) {
            for (uint64_t i = 0; i < e.count; i++) {
                if (e.kind == ExtentKind::zero)
                    m.pages[{e.object, e.page + i}] = {};
                else
                    m.in_base[{e.object, e.page + i}] = e.source + i;
            }
        }
    }
}

std::string name_of_access(Access access)
{
    return access == Access::map ? "map" : "pread";
}

void expect_sound(const std::string &path, const Model &model)
{
    for (Access access : {Access::pread, Access::map}) {
        SCOPED_TRACE(name_of_access(access));
        EXPECT_EQ(read_by_index(path, access), model);
        auto image = Image::open(path, {.access = access});
        ASSERT_TRUE(image) << image.error().text();
        for (const Finding &f : (*image)->verify())
            ADD_FAILURE() << f.offset << ": " << f.text;
    }
    EXPECT_EQ(read_as_stream(path), model);
}

std::string error_of_open(const std::string &path, Access access)
{
    auto image = Image::open(path, {.access = access});
    return image ? "" : image.error().text();
}

std::string error_of_stream(const std::string &path)
{
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    StreamReader reader(fd.get(), path);
    for (;;) {
        auto item = reader.next();
        if (!item)
            return item.error().text();
        if (item->kind == StreamItem::Kind::end_of_stream)
            return "";
    }
}

std::vector<uint8_t> slurp(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in) << path;
    return {std::istreambuf_iterator<char>(in), {}};
}

void spew(const std::string &path, Bytes bytes)
{
    std::filesystem::remove(path);
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.data()), std::streamsize(bytes.size()));
    EXPECT_TRUE(out.good()) << path;
}

} // namespace cryo::image
