// SPDX-License-Identifier: Apache-2.0
//
// How the agent reads requests: a table of types, and one place that decodes them.
//
//     struct Answers {
//         void answer(const TimerRequest &request);
//         void answer(const EndRequest &request);
//     } answers;
//     Incoming in;
//     const long n = receive_packet(from, &in, sizeof(in), MSG_TRUNC);
//     if (is_request(in, n))
//         refused = Requests<TimerRequest, EndRequest>::decode(in, n, answers);
//
// Runs in a stopped program: see the rule in agent.hpp.
#pragma once

#include "protocol/older.hpp"
#include "protocol/requests.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace cryo::agent {

// A packet. A request may be longer than any known one, as long as the rest is zeros.
struct Incoming {
    Head head;
    alignas(uint64_t) unsigned char request[120];
};
static_assert(sizeof(Incoming) == 128);

// n: the size of the packet, which may be larger than Incoming; or −errno.
inline bool is_request(const Incoming &in, long n)
{
    constexpr auto head = static_cast<long>(sizeof(Head));
    return n >= head && in.head.magic == protocol_magic &&
           n >= (in.head.version < first_typed ? static_cast<long>(sizeof(Command)) : head + 8);
}

inline bool are_zeros(const void *bytes, size_t count)
{
    const auto *byte = static_cast<const unsigned char *>(bytes);
    for (size_t i = 0; i < count; i++) {
        if (byte[i] != 0)
            return false;
    }
    return true;
}

// 0 or −errno, by the rules of requests.hpp. Only for what is_request().
template <class R>
long decode_request(const Incoming &in, long n, R &request)
{
    static_assert(sizeof(R) <= sizeof(in.request));
    if (in.head.version < first_typed) {
        Command command;
        __builtin_memcpy(&command, &in, sizeof(command));
        request = from_older<R>(command);
        return 0;
    }
    const size_t size = static_cast<size_t>(n) - sizeof(Head);
    uint32_t told = 0;
    __builtin_memcpy(&told, in.request, sizeof(told));
    if (told != size || size < R::first_size)
        return -EINVAL;
    if (size > sizeof(in.request) ||
        (size > sizeof(R) && !are_zeros(in.request + sizeof(R), size - sizeof(R))))
        return -E2BIG;
    void *to = &request;
    __builtin_memset(to, 0, sizeof(R));
    __builtin_memcpy(to, in.request, size < sizeof(R) ? size : sizeof(R));
    if ((request.flags & ~R::known_flags) != 0)
        return -EOPNOTSUPP;
    if constexpr (requires { request.reserved; }) {
        if (!are_zeros(&request.reserved, sizeof(request.reserved)))
            return -EOPNOTSUPP;
    }
    return 0;
}

// A table: operations with the type of each.
template <class... R>
struct Requests {
    // Calls answers.answer(request), which itself replies. Otherwise −errno; −EOPNOTSUPP: none of
    // these operations.
    template <class Answers>
    static long decode(const Incoming &in, long n, Answers &answers)
    {
        long refused = -EOPNOTSUPP;
        static_cast<void>(
            ((in.head.op == R::op && ((refused = pass_on<R>(in, n, answers)), true)) || ...));
        return refused;
    }

  private:
    template <class One, class Answers>
    static long pass_on(const Incoming &in, long n, Answers &answers)
    {
        One request;
        const long refused = decode_request(in, n, request);
        if (refused == 0)
            answers.answer(request);
        return refused;
    }
};

} // namespace cryo::agent
