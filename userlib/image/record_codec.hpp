// SPDX-License-Identifier: Apache-2.0
//
// Typed records to and from bytes. A record is a struct that lists its fields once; encoder,
// decoder and everything that prints records come from that list:
//
//     struct Rlimit {
//         static constexpr RecordType type = RecordType::rlimit;
//         static constexpr uint16_t version = 1;
//         static constexpr bool required = true;
//
//         uint32_t resource = 0;
//         uint64_t soft = 0;
//         uint64_t hard = 0;
//
//         template <class Self, class V>
//         static void fields(Self &s, V &&v)
//         {
//             v("resource", s.resource);
//             v("soft", s.soft);
//             v("hard", s.hard);
//         }
//     };
//
//     size_t n = encode(limit, buffer);        // 0: the buffer is too small
//     bool good = decode(payload, limit);      // strings in it point into the payload
//
// A field is a bool, an integer, an enumeration (as its integer), a fixed array of bytes, or of
// variable length: std::string_view, Bytes, List<integer> (a u32 count, then the elements).
// Fields are only ever appended, with a higher version: a decoder leaves fields that an older image
// lacks at their defaults and ignores additional fields of a newer one.
//
// Nothing here allocates or calls the library: it is used inside stopped processes.
#pragma once

#include <array>
#include <string_view>

#include "image/little_endian.hpp"

namespace cryo::image {

// How a number is printed.
enum class Show { decimal, hex, octal, time };

// Numbers of one type in their encoded form, read in place.
template <std::integral T>
class List
{
  public:
    List() = default;
    explicit List(Bytes encoded) : bytes_(encoded) {}
    // From numbers in memory, which must outlive the list. The host is little-endian.
    static List of(std::span<const T> numbers)
    {
        static_assert(std::endian::native == std::endian::little);
        return List(Bytes(reinterpret_cast<const uint8_t *>(numbers.data()), numbers.size_bytes()));
    }

    size_t size() const { return bytes_.size() / sizeof(T); }
    bool empty() const { return bytes_.empty(); }
    T operator[](size_t i) const { return load_le<T>(bytes_.data() + i * sizeof(T)); }
    Bytes bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

inline Bytes as_bytes(std::string_view text)
{
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

inline std::string_view as_text(Bytes bytes)
{
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<List<T>> = true;

class FieldEncoder
{
  public:
    explicit FieldEncoder(ByteWriter &to) : to_(to) {}

    template <class T>
    void operator()(const char *, const T &field, Show = Show::decimal)
    {
        if constexpr (std::is_same_v<T, bool>)
            to_.put(uint8_t(field));
        else if constexpr (std::is_enum_v<T>)
            to_.put(static_cast<std::underlying_type_t<T>>(field));
        else if constexpr (std::is_integral_v<T>)
            to_.put(field);
        else if constexpr (std::is_same_v<T, std::string_view>)
            counted(as_bytes(field), field.size());
        else if constexpr (std::is_same_v<T, Bytes>)
            counted(field, field.size());
        else if constexpr (is_list<T>)
            counted(field.bytes(), field.size());
        else
            to_.put(Bytes(field)); // std::array<uint8_t, N>
    }

  private:
    void counted(Bytes bytes, size_t count)
    {
        to_.put(uint32_t(count));
        to_.put(bytes);
    }

    ByteWriter &to_;
};

// Adds up what FieldEncoder writes.
class FieldSizer
{
  public:
    template <class T>
    void operator()(const char *, const T &field, Show = Show::decimal)
    {
        if constexpr (std::is_same_v<T, std::string_view> || std::is_same_v<T, Bytes>)
            size += 4 + field.size();
        else if constexpr (is_list<T>)
            size += 4 + field.bytes().size();
        else
            size += sizeof(T);
    }

    size_t size = 0;
};

class FieldDecoder
{
  public:
    explicit FieldDecoder(ByteReader &from) : from_(from) {}

    template <class T>
    void operator()(const char *, T &field, Show = Show::decimal)
    {
        if (from_.at_end()) // an older version that ends before this field
            return;
        if constexpr (std::is_same_v<T, bool>)
            field = from_.get<uint8_t>() != 0;
        else if constexpr (std::is_enum_v<T>)
            field = static_cast<T>(from_.get<std::underlying_type_t<T>>());
        else if constexpr (std::is_integral_v<T>)
            field = from_.get<T>();
        else if constexpr (std::is_same_v<T, std::string_view>)
            field = as_text(counted(1));
        else if constexpr (std::is_same_v<T, Bytes>)
            field = counted(1);
        else if constexpr (is_list<T>)
            field = T(counted(sizeof(field[0])));
        else
            fixed(field);
    }

  private:
    Bytes counted(size_t element)
    {
        uint64_t count = from_.get<uint32_t>();
        return from_.bytes(size_t(count * element));
    }
    template <size_t N>
    void fixed(std::array<uint8_t, N> &field)
    {
        Bytes b = from_.bytes(N);
        if (from_.ok())
            memcpy(field.data(), b.data(), N);
    }

    ByteReader &from_;
};

template <class R>
size_t encoded_size(const R &record)
{
    FieldSizer sizer;
    R::fields(record, sizer);
    return sizer.size;
}

// Bytes used, or 0 when `out` is too small.
template <class R>
size_t encode(const R &record, MutableBytes out)
{
    ByteWriter to(out);
    R::fields(record, FieldEncoder(to));
    return to.ok() ? to.size() : 0;
}

// False: the payload ends inside a field. Text and lists point into the payload.
template <class R>
bool decode(Bytes payload, R &record)
{
    ByteReader from(payload);
    R::fields(record, FieldDecoder(from));
    return from.ok();
}

template <class R>
constexpr uint16_t record_flags()
{
    return R::required ? kRequired : 0;
}

// A record may have something in it that a reader of an older version must not leave out.
template <class R>
constexpr uint16_t record_flags(const R &record)
{
    uint16_t flags = record_flags<R>();
    if constexpr (requires { record.needs_version(); })
        flags |= record.needs_version() ? kRequiredVersion : 0;
    return flags;
}

} // namespace cryo::image
