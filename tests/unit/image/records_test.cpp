// SPDX-License-Identifier: Apache-2.0
//
// Typed records: each keeps all its fields, older and newer ones are understood, and the
// specification lists the same fields as the code.
#include <fstream>
#include <sstream>

#include "sample.hpp"

namespace cryo::image {
namespace {

// Sets each field to a different value, none of them the default.
class Filler
{
  public:
    template <class T>
    void operator()(const char *, T &field, Show = Show::decimal)
    {
        n_++;
        if constexpr (std::is_same_v<T, bool>)
            field = true;
        else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>)
            field = static_cast<T>(n_ * 0x01010101);
        else if constexpr (std::is_same_v<T, std::string_view>)
            field = text();
        else if constexpr (std::is_same_v<T, Bytes>)
            field = as_bytes(text());
        else if constexpr (is_list<T>)
            field = T(as_bytes(text()).first(16));
        else
            field.fill(uint8_t(n_));
    }

  private:
    std::string_view text() const
    {
        static const std::string letters(200, 'x');
        return std::string_view(letters).substr(0, 16 + n_ % 100);
    }
    uint32_t n_ = 0;
};

// Prints all fields of a record as text.
class Printer
{
  public:
    template <class T>
    void operator()(const char *name, const T &field, Show = Show::decimal)
    {
        out << name << '=';
        if constexpr (std::is_same_v<T, std::string_view>)
            out << field;
        else if constexpr (std::is_same_v<T, Bytes>)
            out << as_text(field);
        else if constexpr (is_list<T>)
            for (size_t i = 0; i < field.size(); i++)
                out << int64_t(field[i]) << ',';
        else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>)
            out << static_cast<int64_t>(field);
        else
            out << as_text(field);
        out << '\n';
    }
    std::ostringstream out;
};

template <class R>
std::string print(const R &record)
{
    Printer p;
    R::fields(record, p);
    return p.out.str();
}

TEST(Records, KeepEveryField)
{
    AllRecords::each([]<class R>() {
        R record;
        R::fields(record, Filler());
        std::vector<uint8_t> bytes(encoded_size(record));
        ASSERT_EQ(encode(record, bytes), bytes.size()) << name_of(R::type);
        R again;
        ASSERT_TRUE(decode(bytes, again)) << name_of(R::type);
        EXPECT_EQ(print(record), print(again));
        EXPECT_NE(print(record), print(R{}));
    });
}

TEST(Records, DoNotEncodeIntoTooLittle)
{
    AllRecords::each([]<class R>() {
        R record;
        R::fields(record, Filler());
        std::vector<uint8_t> bytes(encoded_size(record) - 1);
        EXPECT_EQ(encode(record, bytes), 0u) << name_of(R::type);
    });
}

// A payload cut anywhere is either that of an older version, which ends between two fields, or is
// refused; reading never goes beyond its end (the sanitizers check).
TEST(Records, CutAnywhere)
{
    AllRecords::each([]<class R>() {
        R record;
        R::fields(record, Filler());
        std::vector<uint8_t> whole(encoded_size(record));
        encode(record, whole);
        size_t fields = 0;
        R::fields(record, [&](const char *, const auto &, Show = Show::decimal) { fields++; });
        size_t accepted = 0;
        for (size_t size = 0; size < whole.size(); size++) {
            std::vector<uint8_t> cut(whole.begin(), whole.begin() + long(size));
            R again;
            accepted += decode(cut, again);
        }
        EXPECT_EQ(accepted, fields) << name_of(R::type);
    });
}

TEST(Records, AnOlderReaderMustNotLeaveOutANewName)
{
    SocketMore more;
    EXPECT_EQ(record_flags(more), kRequired);
    more.file_name = "stats";
    EXPECT_EQ(record_flags(more), kRequired | kRequiredVersion);
}

TEST(Records, NewerVersionsTailIsIgnored)
{
    Rlimit record{.resource = 7, .soft = 1, .hard = 2};
    std::vector<uint8_t> bytes(encoded_size(record));
    encode(record, bytes);
    bytes.insert(bytes.end(), {1, 2, 3});
    Rlimit again;
    ASSERT_TRUE(decode(bytes, again));
    EXPECT_EQ(print(record), print(again));
}

TEST(Records, OlderVersionsLackFields)
{
    Thread record{.tid = 5, .name = "main", .syscall = 7, .time_left = 9};
    std::vector<uint8_t> bytes(encoded_size(record));
    encode(record, bytes);
    bytes.resize(4 + 4 + 4); // tid and name
    Thread again;
    ASSERT_TRUE(decode(bytes, again));
    EXPECT_EQ(again.tid, 5u);
    EXPECT_EQ(again.name, "main");
    EXPECT_EQ(again.syscall, -1);
    EXPECT_EQ(again.time_left, -1);
}

TEST(Records, CountsBeyondThePayloadAreRefused)
{
    std::vector<uint8_t> bytes(8);
    store_le(bytes.data(), uint32_t(0xffffffff));
    Auxv auxv; // a list of u64: the count times 8 must not wrap around
    EXPECT_FALSE(decode(bytes, auxv));
    Environ env;
    bytes.assign(12, 0);
    store_le(bytes.data() + 4, uint32_t(0xfffffff0));
    EXPECT_FALSE(decode(bytes, env));
}

TEST(Records, EachHasANumberANameAndAVersion)
{
    std::map<uint32_t, int> seen;
    AllRecords::each([&]<class R>() {
        EXPECT_EQ(++seen[static_cast<uint32_t>(R::type)], 1);
        EXPECT_NE(name_of(R::type), nullptr);
        EXPECT_EQ(known_version(R::type), R::version);
        EXPECT_GE(static_cast<uint32_t>(R::type), 16u);
    });
    EXPECT_EQ(known_version(RecordType(15)), 0);
    EXPECT_EQ(known_version(RecordType(4711)), 0);
    EXPECT_EQ(name_of(RecordType(4711)), nullptr);
    EXPECT_EQ(name_of(RecordType(0)), nullptr);
}

template <class T>
std::string type_in_words()
{
    if constexpr (std::is_same_v<T, bool>)
        return "bool";
    else if constexpr (std::is_enum_v<T>)
        return "u32";
    else if constexpr (std::is_integral_v<T>)
        return (std::is_signed_v<T> ? "i" : "u") + std::to_string(sizeof(T) * 8);
    else if constexpr (std::is_same_v<T, std::string_view>)
        return "text";
    else if constexpr (std::is_same_v<T, Bytes>)
        return "bytes";
    else if constexpr (is_list<T>)
        return "list of " + type_in_words<std::remove_cvref_t<decltype(T()[0])>>();
    else
        return "id";
}

TEST(Records, StandInTheSpecification)
{
    std::ifstream in(IMAGE_FORMAT_DOC);
    ASSERT_TRUE(in) << IMAGE_FORMAT_DOC;
    std::map<std::string, std::string> sections; // heading → "field type" lines
    std::string heading;
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("### "))
            heading = line.substr(4);
        else if (line.starts_with("## "))
            heading.clear();
        if (!line.starts_with("| ") || line.starts_with("| field"))
            continue;
        std::istringstream cells(line);
        std::string bar;
        std::string name;
        std::string type;
        std::getline(cells, bar, '|');
        std::getline(cells, name, '|');
        std::getline(cells, type, '|');
        auto trim = [](const std::string &s) {
            return s.substr(1, s.size() < 2 ? 0 : s.find_last_not_of(' '));
        };
        sections[heading] += trim(name) + " " + trim(type) + "\n";
    }
    AllRecords::each([&]<class R>() {
        std::string title = std::string(name_of(R::type)) + " (" +
                            std::to_string(static_cast<uint32_t>(R::type)) + ")";
        std::string fields;
        R record;
        R::fields(record, [&]<class T>(const char *name, const T &, Show = Show::decimal) {
            fields += std::string(name) + " " + type_in_words<T>() + "\n";
        });
        EXPECT_EQ(sections[title], fields) << "docs/image-format.md, section " << title;
    });
}

} // namespace
} // namespace cryo::image
