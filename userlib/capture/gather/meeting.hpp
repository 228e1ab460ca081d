// SPDX-License-Identifier: Apache-2.0
//
// The messages between two checkpoints when one needs a process whose turn the other has. The
// messages are packets on the connection between the waiter and the holder of a turn
// (capture/session/turn.hpp):
//
//     waiter                             holder of the turn
//     need: rank, terms         ->
//                               <-       come            if the holder is older, or
//                               <-       members         if the holder is younger
//     members                   ->                       after `come`
//     ack                       <->                      from the side that took over members
//                               <-       report, again   the outcome, to their former owner
//     same: scope, file, terms  ->                       an identical request: ack, report
//                               <-       busy            the holder waits for a callback that
//                                                        began, and may await, the waiter
//
// Members are moved as descriptors: the connection to the process, and its turn. They move from
// younger to older checkpoints only, so that no two of them wait for each other's answer.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/process/options.hpp"

#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace cryo::capture::meeting {

enum class Word : uint32_t { need = 'n', same, come, members, ack, report, again, busy };

// The properties that two checkpoints must have in common to be merged. All zero: this one is never
// merged.
struct Terms {
    uint64_t pid_space = 0;
    uint32_t protocol = 0; // the version of these packets
    uint32_t agents = 0;   // the version of the agents' protocol
    uint32_t snapshot = 0;
    uint32_t packing = 0;
    uint32_t files = 0;
    uint32_t traced = 0;
    bool operator==(const Terms &) const = default;
};

struct Rank { // the smaller rank is the older checkpoint
    uint64_t born = 0;
    uint64_t pid = 0;
    auto operator<=>(const Rank &) const = default;
};

struct Need {
    Word word = Word::need;
    uint32_t can_move = 0; // its members can be moved to another
    uint32_t accepts = 0;  // it can take over members of another
    uint32_t unused = 0;
    Rank rank;
    Terms terms;
};

struct Same {
    Word word = Word::same;
    uint32_t scope = 0;
    int32_t id = 0;
    uint32_t sync = 0;
    Terms terms;
    char file[4096] = {};
    bool operator==(const Same &other) const
    {
        return scope == other.scope && id == other.id && sync == other.sync &&
               terms == other.terms && strncmp(file, other.file, sizeof(file)) == 0;
    }
};

struct Members { // followed by that many Moved, MovedScope and pids
    Word word = Word::members;
    uint32_t members = 0;
    uint32_t scopes = 0;
    uint32_t omitted = 0;
};

struct Moved {
    uint64_t started = 0;
    uint64_t since = 0; // when it was asked to prepare
    int32_t pid = 0;
    uint8_t asked = 0; // and has not finished preparing
    uint8_t accepted = 0;
    uint8_t callbacks = 0;
    uint8_t unused = 0;
};

struct MovedScope {
    uint32_t scope = 0;
    int32_t id = 0;
};

struct Report {
    Word word = Word::report;
    int32_t error = 0; // errno, explained in text; 0: the image comes as a descriptor
    uint64_t processes = 0, threads = 0, pages = 0, stopped_ns = 0, bytes = 0;
    char text[2047] = {};
    Reason reason = Reason::other; // of the error. For older releases the last byte of the text: 0
};

struct Packet {
    std::vector<char> bytes;
    std::vector<Fd> fds;

    template <class T>
    bool is(T &to) const // false if the size is not that of T
    {
        if (bytes.size() != sizeof(T))
            return false;
        size_t at = 0;
        return take(at, to);
    }
    template <class T>
    bool take(size_t &at, T &to) const
    {
        static_assert(std::is_trivially_copyable_v<T>);
        if (bytes.size() < at || bytes.size() - at < sizeof(T))
            return false;
        memcpy(&to, bytes.data() + at, sizeof(T));
        at += sizeof(T);
        return true;
    }
    Word word() const; // 'need' if it is unknown: an older release sends nothing else
};

enum class Heard { nothing, packet, closed };

constexpr size_t most_fds = 250; // in one packet: the kernel allows 253

template <class T>
void append(std::vector<char> &to, const T &what)
{
    const auto *bytes = reinterpret_cast<const char *>(&what);
    to.insert(to.end(), bytes, bytes + sizeof(T));
}

Heard receive(int socket, Packet &packet, int milliseconds = 0);
bool send(int socket, std::span<const char> bytes, std::span<const int> fds = {});
template <class T>
bool send(int socket, const T &what, std::span<const int> fds = {})
{
    return send(socket, std::span(reinterpret_cast<const char *>(&what), sizeof(T)), fds);
}

Terms terms_of(const CheckpointOptions &options);
// Set only for a request that another request's image may satisfy.
std::optional<Same> same_of(const CheckpointOptions &options, pid_t id);

} // namespace cryo::capture::meeting
