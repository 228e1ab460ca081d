// SPDX-License-Identifier: Apache-2.0
//
// How a checkpointer writes requests: as they are, or in the form of older releases.
//
//     const agent::Outgoing packet(agent::TimerRequest{.id = 3}, is_typed);
//     send_with(connection, packet.bytes(), {});
#pragma once

#include "protocol/older.hpp"
#include "protocol/requests.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

namespace cryo::agent {

class Outgoing
{
  public:
    Outgoing() = default;
    // is_typed: the agent has shown that it reads more than the older form.
    template <class R>
    Outgoing(const R &request, bool is_typed)
    {
        static_assert(sizeof(Head) + sizeof(R) <= longest && sizeof(Command) <= longest);
        const Head head = {protocol_magic, protocol_version, R::op};
        if (is_typed || R::op == Op::prepare) {
            size_ = sizeof(head) + sizeof(request);
            memcpy(bytes_.data(), &head, sizeof(head));
            memcpy(bytes_.data() + sizeof(head), &request, sizeof(request));
        } else {
            const Command command = older_form(request);
            size_ = sizeof(command);
            memcpy(bytes_.data(), &command, sizeof(command));
        }
    }
    std::span<const char> bytes() const { return {bytes_.data(), size_}; }

  private:
    static constexpr size_t longest = 64;
    alignas(uint64_t) std::array<char, longest> bytes_{};
    size_t size_ = 0;
};

} // namespace cryo::agent
