// SPDX-License-Identifier: Apache-2.0
#include "store/manifest.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace cryo::store {

namespace {

const std::string checksum = "0123456789abcdef0123456789abcdef";

Manifest usual()
{
    return {.kind = Kind::image,
            .name = "context.412",
            .root = "context.412",
            .host = "n1",
            .pushed_ns = 1,
            .files = {{"context.412", 5, checksum}, {"base", uint64_t(1) << 40, checksum}}};
}

TEST(Manifest, ThereAndBack)
{
    const Result<Manifest> read = Manifest::parse(usual().text());
    ASSERT_TRUE(read);
    EXPECT_EQ(usual().text(), read->text());
    EXPECT_EQ(usual().files, read->files);
    EXPECT_EQ((uint64_t(1) << 40) + 5, read->bytes());
    EXPECT_EQ("k/files/" + checksum + "-5", read->files[0].object({"abc", "k"}).key);
}

// Each bit of it.
TEST(Manifest, Damaged)
{
    const std::string text = usual().text();
    for (size_t i = 0; i + 1 < text.size(); i++) {
        for (int bit = 0; bit < 8; bit++) {
            std::string other = text;
            other[i] = static_cast<char>(other[i] ^ (1 << bit));
            const Result<Manifest> read = Manifest::parse(other);
            // Escapes and blanks may be written in more ways than one.
            EXPECT_TRUE(!read || read->text() == text) << other;
        }
    }
    for (size_t length = 0; length + 1 < text.size(); length++)
        EXPECT_FALSE(Manifest::parse(text.substr(0, length)));
}

TEST(Manifest, Deep)
{
    constexpr size_t depth = 2'000'000;
    const Result<Manifest> read =
        Manifest::parse("{\"cryo\":1,\"checksum\":\"\",\"x\":" + std::string(depth, '[') +
                        std::string(depth, ']') + "}");
    ASSERT_FALSE(read);
    EXPECT_EQ(EBADMSG, read.error().code());
}

// What has a checksum may have been written by anybody all the same.
TEST(Manifest, Hostile)
{
    const auto refused = [](auto change) {
        Manifest manifest = usual();
        change(manifest);
        const Result<Manifest> read = Manifest::parse(manifest.text());
        return !read && read.error().code() == EPROTO;
    };
    for (const char *name : {"", "../x", "/etc/passwd", "a/../../b", "base"})
        EXPECT_TRUE(refused([&](Manifest &m) { m.files[0].name = name; })) << name;
    EXPECT_TRUE(refused([](Manifest &m) { m.files[0].checksum = "../../x"; }));
    EXPECT_TRUE(refused([](Manifest &m) { m.files[0].bytes = UINT64_MAX; }));
    EXPECT_TRUE(refused([](Manifest &m) { m.root = "other"; }));
    EXPECT_TRUE(refused([](Manifest &m) { m.root = ""; }));
    EXPECT_TRUE(refused([](Manifest &m) { m.kind = Kind::snapshot; })); // and has a root
    EXPECT_TRUE(refused([](Manifest &m) { m.name = "a/b"; }));
    EXPECT_TRUE(refused([](Manifest &m) { m.name = ".."; }));
}

TEST(Manifest, OfLater)
{
    std::string text = usual().text();
    text.replace(text.find("\"cryo\":1"), 8, "\"cryo\":2");
    EXPECT_EQ(ENOTSUP, Manifest::parse(text).error().code());
    EXPECT_EQ(EBADMSG, Manifest::parse("{}").error().code());
    EXPECT_EQ(EBADMSG, Manifest::parse("[]").error().code());
}

} // namespace

} // namespace cryo::store
