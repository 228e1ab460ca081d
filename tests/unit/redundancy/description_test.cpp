// SPDX-License-Identifier: Apache-2.0
//
// The description of a set: it is read as it was written, and whatever else is there is refused.
// Every mutation of one is either the same, a description that passes all checks, or an error.
#include "redundancy/parity_file.hpp"

#include "image/checksum.hpp"
#include "image/little_endian.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace cryo::redundancy {

namespace {

constexpr const char *some_checksum = "0123456789abcdef0123456789abcdef";

Description sample()
{
    Description set{.id = "0123abcd", .scheme = {}, .members = {}, .member = 1};
    for (int i = 0; i < 3; i++)
        set.members.push_back({.node = fmt::format("n{}", i),
                               .files = {{.name = fmt::format("opal_snapshot_{}.ckpt/context", i),
                                          .bytes = 5000,
                                          .checksum = some_checksum}}});
    set.members[2].files.clear();
    return set;
}

bool is_refused(const Description &set)
{
    const Result<Description> read = read_description(write_description(set), "f");
    const Result<void> good = check(set, "f");
    EXPECT_EQ(bool(read), bool(good));
    if (!read) {
        EXPECT_EQ(read.error().code(), EINVAL);
        EXPECT_TRUE(read.error().text().starts_with("f: ")) << read.error().text();
    }
    return !read;
}

TEST(Descriptions, AreReadAsWritten)
{
    const Description set = sample();
    const Result<Description> read = read_description(write_description(set), "f");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_TRUE(read->is_same_set(set));
    EXPECT_EQ(read->member, 1U);
    EXPECT_EQ(read->nodes(), (std::vector<std::string>{"n0", "n1", "n2"}));
    EXPECT_EQ(read->blocks(), (std::vector<uint64_t>{1, 1, 0}));
}

TEST(Descriptions, HaveNoNamesThatLeadElsewhere)
{
    for (const char *name : {"", "/etc/passwd", "../x", "a/../x", "a/..", "a//b", "a/", ".", "./a",
                             "a/.hidden", "parity", "parity/x", "a\nb", "a\x7f"}) {
        Description set = sample();
        set.members[0].files[0].name = name;
        EXPECT_TRUE(is_refused(set)) << name;
    }
    Description set = sample();
    set.members[0].files[0].name = "a/parity";
    EXPECT_FALSE(is_refused(set));
    for (const char *parent : {"", "a/"}) {
        set.members[0].files[0].name = parent + std::string(250, 'a');
        EXPECT_FALSE(is_refused(set)); // it leaves room for ".NAME.tmp"
        set.members[0].files[0].name += 'a';
        EXPECT_TRUE(is_refused(set));
    }
    set.members[0].files[0].name = std::string(5000, 'a');
    EXPECT_TRUE(is_refused(set));
    set.members[0].files[0].name = "\xff"; // JSON cannot hold it
    EXPECT_FALSE(check(set, "f"));
}

TEST(Descriptions, HaveNoImpossibleNumbers)
{
    const std::vector<std::function<void(Description &)>> changes = {
        [](Description &set) { set.block = 0; },
        [](Description &set) { set.block = 4097; },
        [](Description &set) { set.block = 2 * largest_block; },
        [](Description &set) { set.member = 3; },
        [](Description &set) { set.id = ""; },
        [](Description &set) { set.members.resize(1); },
        [](Description &set) { set.members.resize(most_members + 1, set.members[2]); },
        [](Description &set) { set.scheme = {.kind = Kind::reed_solomon, .losses = 3}; },
        [](Description &set) { set.members[0].node = ""; },
        [](Description &set) { set.members[0].files[0].bytes = most_bytes + 1; },
        [](Description &set) { set.members[0].files[0].checksum = "none"; },
        [](Description &set) { set.members[0].files.push_back(set.members[0].files[0]); },
        [](Description &set) {
            set.members[0].files[0].bytes = most_bytes;
            set.members[0].files.push_back(
                {.name = "other", .bytes = 1, .checksum = some_checksum});
        },
    };
    EXPECT_FALSE(is_refused(sample()));
    for (size_t i = 0; i < changes.size(); i++) {
        Description set = sample();
        changes[i](set);
        EXPECT_TRUE(is_refused(set)) << i;
    }
}

TEST(Descriptions, AreWhole)
{
    for (const char *text :
         {"", "7", "[]", "{}", "{", "{\"version\": 1}", "{\"version\": 2}", "{\"version\": \"1\"}"})
        EXPECT_FALSE(read_description(text, "f")) << text;
    const std::string whole = write_description(sample());
    for (size_t size = 0; size < whole.size(); size++)
        EXPECT_FALSE(read_description(whole.substr(0, size), "f")) << size;
    EXPECT_FALSE(read_description(std::string(most_description + 1, ' '), "f"));
}

TEST(Descriptions, AreNotNested)
{
    std::string deep = write_description(sample());
    deep.insert(1, "\"more\": " + std::string(200'000, '[') + std::string(200'000, ']') + ", ");
    const Result<Description> read = read_description(deep, "f");
    ASSERT_TRUE(read) << read.error().text(); // what is not known is passed over
    EXPECT_TRUE(read->is_same_set(sample()));
}

// As it stands at the beginning of a parity file.
std::vector<uint8_t> head_of(const std::string &description)
{
    std::vector<uint8_t> bytes(16);
    std::ranges::copy(std::string_view("CRYOSET1"), bytes.begin());
    image::store_le(bytes.data() + 8, static_cast<uint32_t>(description.size()));
    image::Hasher hasher;
    hasher.add(bytes);
    hasher.add({reinterpret_cast<const uint8_t *>(description.data()), description.size()});
    std::ranges::copy(hasher.digest().bytes(), std::back_inserter(bytes));
    bytes.insert(bytes.end(), description.begin(), description.end());
    return bytes;
}

TEST(ParityHeads, AreCheckedByteForByte)
{
    const std::vector<uint8_t> whole = head_of(write_description(sample()));
    const Result<Description> read = read_parity_head(whole, "f");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_TRUE(read->is_same_set(sample()));
    for (size_t i = 0; i < whole.size(); i++) {
        std::vector<uint8_t> other = whole;
        other[i] ^= 1;
        EXPECT_FALSE(read_parity_head(other, "f")) << i;
        EXPECT_FALSE(read_parity_head(image::Bytes(whole).first(i), "f")) << i;
    }
}

// Bytes are changed, doubled, exchanged, and left out, with a checksum that fits again.
std::string mutated(std::string text, std::mt19937 &random)
{
    static constexpr std::string_view words[] = {
        "\"",   "{",  "}",      "[", "]", ":", ",", "-1", "1e99", "18446744073709551616",
        "null", "..", "\\u0000"};
    for (unsigned n = 1 + random() % 3; n > 0 && !text.empty(); n--) {
        const size_t at = random() % text.size();
        const size_t length = std::min<size_t>(random() % 40, text.size() - at);
        switch (random() % 5) {
        case 0:
            text[at] = static_cast<char>(random());
            break;
        case 1:
            text.erase(at, length);
            break;
        case 2:
            text.insert(random() % text.size(), text.substr(at, length));
            break;
        case 3:
            text.replace(at, 1, words[random() % std::size(words)]);
            break;
        default:
            text[at] = text[random() % text.size()];
        }
    }
    return text;
}

TEST(ParityHeads, HoldAnythingWithoutHarm)
{
    std::mt19937 random(40);
    const std::string whole = write_description(sample());
    int read_ones = 0;
    for (int round = 0; round < 20'000; round++) {
        const std::string text = mutated(whole, random);
        const Result<Description> read = read_parity_head(head_of(text), "f");
        if (!read) {
            EXPECT_TRUE(read.error().text().starts_with("f")) << read.error().text();
            continue;
        }
        read_ones++;
        EXPECT_TRUE(check(*read, "f"));
        const Result<Description> again = read_description(write_description(*read), "f");
        ASSERT_TRUE(again);
        EXPECT_TRUE(again->is_same_set(*read));
    }
    EXPECT_GT(read_ones, 100);
}

} // namespace

} // namespace cryo::redundancy
