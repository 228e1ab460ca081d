// SPDX-License-Identifier: Apache-2.0
//
// An address in another process. It never converts to a pointer implicitly: the memory there is
// read by the agent in that process, from /proc, or from a copy.
//
//     const RemoteAddress start(mapping.start);
//     for (RemoteAddress at = start; at < end; at += page_size) ...
//     fmt::format("at {:x}", at)                                  // as a number is written
//
// In messages to an agent it takes 8 bytes. The agent's own code includes this file.
#pragma once

#include <compare>
#include <cstdint>
#include <type_traits>

namespace cryo {

class RemoteAddress
{
  public:
    constexpr RemoteAddress() = default;
    constexpr explicit RemoteAddress(uint64_t number) : number_(number) {}
    constexpr uint64_t number() const { return number_; }

    constexpr RemoteAddress &operator+=(uint64_t bytes)
    {
        number_ += bytes;
        return *this;
    }
    friend constexpr RemoteAddress operator+(RemoteAddress from, uint64_t bytes)
    {
        return RemoteAddress(from.number_ + bytes);
    }
    friend constexpr RemoteAddress operator-(RemoteAddress from, uint64_t bytes)
    {
        return RemoteAddress(from.number_ - bytes);
    }
    // The bytes between two; `start` is the lower one.
    friend constexpr uint64_t operator-(RemoteAddress end, RemoteAddress start)
    {
        return end.number_ - start.number_;
    }
    friend constexpr auto operator<=>(RemoteAddress a, RemoteAddress b) = default;

  private:
    uint64_t number_ = 0;
};

static_assert(sizeof(RemoteAddress) == sizeof(uint64_t) &&
              std::is_trivially_copyable_v<RemoteAddress>);

} // namespace cryo
