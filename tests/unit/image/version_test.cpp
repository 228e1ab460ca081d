// SPDX-License-Identifier: Apache-2.0
//
// Images of the future: optional parts are skipped, required ones are refused with advice. Also the
// limits on what a header or a caller may ask for.
#include <fcntl.h>

#include "sample.hpp"

namespace cryo::image {
namespace {

// Changes the header page and signs it again; the footer's checksum is then wrong, but the header
// is checked first.
std::string error_with_header(const Scratch &dir, const std::function<void(Header &)> &change)
{
    write_image(dir / "image", {});
    std::vector<uint8_t> bytes = slurp(dir / "image");
    Header h = *Header::decode(Bytes(bytes).first(kHeaderSize));
    change(h);
    std::ranges::copy(h.encode(), bytes.begin());
    spew(dir / "changed", bytes);
    std::string opened = error_of_open(dir / "changed", Access::pread);
    std::string streamed = error_of_stream(dir / "changed");
    EXPECT_NE(opened, "");
    EXPECT_NE(streamed, "");
    return opened + "\n" + streamed;
}

size_t count(const std::string &text, const std::string &word)
{
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        n++;
    return n;
}

TEST(Versions, NewerFormatIsReadIfItsWriterSaysSo)
{
    Scratch dir;
    // A higher version alone is no obstacle: the only error is the footer's checksum.
    std::string error = error_with_header(dir, [](Header &h) { h.version = 2; });
    EXPECT_EQ(count(error, "metadata is damaged"), 2u) << error;
    error = error_with_header(dir, [](Header &h) {
        h.version = 3;
        h.oldest_reader = 2;
    });
    EXPECT_EQ(count(error, "use a newer Cryo"), 2u) << error;
}

TEST(Versions, HeaderIsRefusedForWhatWeDoNotKnow)
{
    Scratch dir;
    const std::pair<const char *, std::function<void(Header &)>> cases[] = {
        {"features 0x4", [](Header &h) { h.features = 4; }},
        {"pages of 65536 bytes", [](Header &h) { h.page_size = 65536; }},
        {"role 7", [](Header &h) { h.role = Role(7); }},
        {"packages of 3 blocks", [](Header &h) { h.package_blocks = 3; }},
        {"packages of 4294967295 blocks", [](Header &h) { h.package_blocks = UINT32_MAX; }},
        {"no image id", [](Header &h) { h.id = {}; }},
    };
    for (const auto &[words, change] : cases) {
        std::string error = error_with_header(dir, change);
        EXPECT_EQ(count(error, words), 2u) << words << ": " << error;
    }
    // Unknown hints are only hints.
    std::string error = error_with_header(dir, [](Header &h) { h.hints = uint64_t(1) << 60; });
    EXPECT_EQ(count(error, "metadata is damaged"), 2u) << error;
}

struct RecordCase {
    RecordType type;
    uint16_t version;
    uint16_t flags;
    bool readable;
};

TEST(Versions, UnknownRecordsAreSkippedOrRefusedByTheirFlags)
{
    Scratch dir;
    const RecordCase cases[] = {
        {RecordType(4711), 1, 0, true},
        {RecordType(4711), 1, kRequiredVersion, true},
        {RecordType(4711), 1, kRequired, false},
        {RecordType(12), 1, 0, true}, // a future structural record
        {RecordType(12), 1, kRequired, false},
        {RecordType::rlimit, 2, kRequired, true}, // known, in a newer version
        {RecordType::rlimit, 2, kRequired | kRequiredVersion, false},
        {RecordType::rlimit, 1, kRequired | kRequiredVersion, true},
        {RecordType::rlimit, 1, 0x8000, true}, // flags of the future
    };
    Rlimit limit{.resource = 7, .soft = 1, .hard = 2};
    std::vector<uint8_t> payload(encoded_size(limit));
    encode(limit, payload);
    payload.resize(payload.size() + 5, 0xff); // fields of the future
    for (const RecordCase &c : cases) {
        auto sink = FileSink::create(dir / "image", {.existing = Existing::replace, .sync = false});
        auto writer = ImageWriter::create(std::move(*sink));
        ASSERT_TRUE((*writer)->add_record(c.type, c.version, c.flags, payload));
        ASSERT_TRUE((*writer)->add(Rlimit{.resource = 8}));
        // Structural records are not counted as typed records, whoever writes them.
        auto done = (*writer)->commit();
        ASSERT_TRUE(done);
        std::string text = describe(c.type) + " v" + std::to_string(c.version) + " flags " +
                           std::to_string(c.flags);
        for (const std::string &error :
             {error_of_open(dir / "image", Access::pread),
              error_of_open(dir / "image", Access::map), error_of_stream(dir / "image")}) {
            if (c.readable)
                EXPECT_EQ(error, "") << text;
            else
                EXPECT_NE(error.find("use a newer Cryo"), std::string::npos) << text << error;
        }
        if (!c.readable || c.type != RecordType::rlimit)
            continue;
        auto image = Image::open(dir / "image");
        std::vector<uint32_t> seen;
        ASSERT_TRUE(
            (*image)->for_each<Rlimit>([&](const Rlimit &l) { seen.push_back(l.resource); }));
        EXPECT_EQ(seen, (std::vector<uint32_t>{7, 8})) << text;
        EXPECT_TRUE((*image)->verify().empty());
    }
}

TEST(Versions, RecordsTooShortAreFound)
{
    Scratch dir;
    auto sink = FileSink::create(dir / "image");
    auto writer = ImageWriter::create(std::move(*sink));
    ASSERT_TRUE((*writer)->add_record(RecordType::rlimit, 1, kRequired, Bytes(kHeaderMagic, 3)));
    ASSERT_TRUE((*writer)->commit());
    auto image = Image::open(dir / "image");
    ASSERT_TRUE(image);
    auto ok = (*image)->for_each<Rlimit>([](const Rlimit &) { ADD_FAILURE(); });
    ASSERT_FALSE(ok);
    EXPECT_NE(ok.error().text().find("RLIMIT"), std::string::npos);
    EXPECT_EQ((*image)->verify().size(), 1u);
}

TEST(Misuse, IsRefused)
{
    Scratch dir;
    auto writer_with = [&](WriterOptions options) {
        auto sink = FileSink::create(dir / "image", {.existing = Existing::replace, .sync = false});
        return ImageWriter::create(std::move(*sink), options);
    };
    EXPECT_FALSE(writer_with({.package_blocks = 3}));
    EXPECT_FALSE(writer_with({.package_blocks = 65}));
    std::vector<uint8_t> page(kPageSize, 1);
    std::vector<uint8_t> huge(kMaxRecord + 1);
    {
        auto writer = writer_with({});
        EXPECT_FALSE((*writer)->add_record(RecordType(1000), 1, 0, huge));
        EXPECT_FALSE((*writer)->add_pages(0, 0, Bytes(page).first(100)));
        EXPECT_FALSE((*writer)->add_pages(0, kMaxPage, page));
        EXPECT_FALSE((*writer)->add_zero(0, 1, kMaxPage));
        EXPECT_FALSE((*writer)->add_zero(0, ~uint64_t(0), 2));
        EXPECT_TRUE((*writer)->add_zero(0, kMaxPage - 1, 1));
        EXPECT_TRUE((*writer)->add_record(RecordType(1000), 1, 0, Bytes(huge).first(kMaxRecord)));
        // None of these calls has spoilt the image.
        EXPECT_TRUE((*writer)->commit());
        EXPECT_EQ(error_of_open(dir / "image", Access::map), "");
        EXPECT_FALSE((*writer)->add_pages(0, 0, page)); // too late
        EXPECT_FALSE((*writer)->commit());
    }
    {
        auto writer = writer_with({});
        ASSERT_TRUE((*writer)->add_pages(3, 9, page));
        ASSERT_TRUE((*writer)->add_pages(3, 9, page));
        auto done = (*writer)->commit();
        ASSERT_FALSE(done);
        EXPECT_NE(done.error().text().find("object 3 page 0x9"), std::string::npos)
            << done.error().text();
    }
    auto image = Image::open(dir / "image");
    EXPECT_FALSE((*image)->read_pages(0, 0, MutableBytes(page).first(100)));
    EXPECT_FALSE((*image)->find(0, kMaxPage));
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    Fd other(fds[1]);
    EXPECT_FALSE(Image::open(Fd(fds[0]), "pipe"));
}

} // namespace
} // namespace cryo::image
