// SPDX-License-Identifier: Apache-2.0
//
// Numbers to and from little-endian bytes, and two cursors that never step over the end of their
// bytes. A cursor that was asked for too much turns not-ok and stays so: check once, at the end.
// No allocation, no library calls but memcpy: usable in async-signal-safe code.
//
//     ByteWriter w(buffer);
//     w.put(uint32_t(7));
//     if (!w.ok()) ...            // did not fit
//
//     ByteReader r(bytes);
//     uint32_t n = r.get<uint32_t>();
//     Bytes name = r.bytes(n);    // empty and not ok() when fewer than n are left
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>

#include "image/format.hpp"

namespace cryo::image {

template <std::integral T>
constexpr T swap_unless_little(T value)
{
    if constexpr (std::endian::native == std::endian::little || sizeof(T) == 1) {
        return value;
    } else {
        std::make_unsigned_t<T> in = value;
        std::make_unsigned_t<T> out = 0;
        for (size_t i = 0; i < sizeof(T); i++, in >>= 8)
            out = out << 8 | (in & 0xff);
        return T(out);
    }
}

template <std::integral T>
T load_le(const uint8_t *from)
{
    T value;
    memcpy(&value, from, sizeof value);
    return swap_unless_little(value);
}

template <std::integral T>
void store_le(uint8_t *to, T value)
{
    value = swap_unless_little(value);
    memcpy(to, &value, sizeof value);
}

class ByteWriter
{
  public:
    explicit ByteWriter(MutableBytes to) : to_(to) {}

    template <std::integral T>
    void put(T value)
    {
        if (uint8_t *at = take(sizeof value))
            store_le(at, value);
    }
    void put(Bytes bytes)
    {
        if (uint8_t *at = take(bytes.size()); at && !bytes.empty())
            memcpy(at, bytes.data(), bytes.size());
    }
    void zeros(size_t count)
    {
        if (uint8_t *at = take(count); at && count)
            memset(at, 0, count);
    }

    bool ok() const { return ok_; }
    size_t size() const { return used_; }
    Bytes written() const { return to_.first(used_); }

  private:
    uint8_t *take(size_t count)
    {
        if (!ok_ || count > to_.size() - used_) {
            ok_ = false;
            return nullptr;
        }
        uint8_t *at = to_.data() + used_;
        used_ += count;
        return at;
    }

    MutableBytes to_;
    size_t used_ = 0;
    bool ok_ = true;
};

class ByteReader
{
  public:
    explicit ByteReader(Bytes from) : from_(from) {}

    template <std::integral T>
    T get()
    {
        Bytes b = bytes(sizeof(T));
        return ok_ ? load_le<T>(b.data()) : T{};
    }
    Bytes bytes(size_t count)
    {
        if (!ok_ || count > from_.size()) {
            ok_ = false;
            return {};
        }
        Bytes out = from_.first(count);
        from_ = from_.subspan(count);
        return out;
    }

    bool ok() const { return ok_; }
    bool at_end() const { return from_.empty(); }
    size_t left() const { return from_.size(); }

  private:
    Bytes from_;
    bool ok_ = true;
};

} // namespace cryo::image
