// SPDX-License-Identifier: Apache-2.0
//
// Requests to the agent (agent.hpp): one structure per operation, sent behind a Head.
//
//     agent::TouchedRequest{.start = start, .count = 512}
//
// The rules are those of the module's commands (docs/module-abi.md). `size` is the structure's, as
// the sender knows it; new members are added at the end. What an older release does not send counts
// as zeros (but nothing is shorter than `first_size`), and what a newer one sends behind must be
// zeros: −E2BIG otherwise. Flags that are unknown and a `reserved` that is not zero are refused
// with −EOPNOTSUPP, like unknown operations, and a wrong size with −EINVAL. decode.hpp checks all
// this.
//
// Unless a request says otherwise, the reply is one Reply with the result: 0 or −errno. "A packet"
// and "packets" follow the Reply, if the result is not below zero.
#pragma once

#include "base/remote_address.hpp"
#include "protocol/agent.hpp"

#include <cstdint>
#include <type_traits>

namespace cryo::agent {

// An operation that takes nothing.
template <Op which>
struct PlainRequest {
    static constexpr Op op = which;
    static constexpr uint32_t first_size = 8, known_flags = 0;
    uint32_t size = sizeof(PlainRequest), flags = 0;
};

// Sent before the release of the agent is known, and therefore in a form that all releases
// understand: it is as long as their requests, and they read only its head. RequestInfo follows.
struct PrepareRequest {
    static constexpr Op op = Op::prepare;
    static constexpr uint32_t first_size = 32, known_flags = 0;
    uint32_t size = sizeof(PrepareRequest), flags = 0;
    uint64_t features = 0; // of the checkpointer
    uint64_t reserved[2] = {};
};

using StopRequest = PlainRequest<Op::stop>;       // park every thread; value: how many
using ThreadsRequest = PlainRequest<Op::threads>; // count packets: ThreadFacts of each
using ProcessRequest = PlainRequest<Op::process>; // a packet: ProcessFacts
using ActionsRequest = PlainRequest<Op::actions>; // a packet: SignalAction[64]
using OwnRequest = PlainRequest<Op::own>;         // a packet: OwnFacts
using LodgerRequest = PlainRequest<Op::lodger>;   // a packet, if there is a lodger: LodgerFacts
using WatchesRequest = PlainRequest<Op::watches>; // count packets of WatchedPath and the path

// Comes with descriptors (SCM_RIGHTS): {command socket, page pipe} or {command socket, page pipe,
// /dev/cryo}. A frozen copy serves pages on them; with the device, the kernel module moves the
// pages. value: the pid of the copy, which itself sends a Reply once it has begun.
using ForkRequest = PlainRequest<Op::fork>;
// Like `fork`, but the stopped program itself serves, until `end`; then it replies.
using ServeRequest = PlainRequest<Op::serve>;

// To what serves pages: the bytes go into the page pipe. There is a reply only if that fails.
struct PagesRequest {
    static constexpr Op op = Op::pages;
    static constexpr uint32_t first_size = 32;
    static constexpr uint32_t zeros_for_missing = 1; // pages beyond the end of their file
    static constexpr uint32_t known_flags = zeros_for_missing;
    uint32_t size = sizeof(PagesRequest), flags = 0;
    RemoteAddress start = {};
    uint64_t length = 0;
    int32_t protection = -1; // of the mapping; −1: unknown
    uint32_t reserved = 0;
};

// To what serves pages with the module's device: the soft-dirty bits of this memory. value: the
// address reached; a packet of count cryo_run (linux/cryo.h).
struct ScanRequest {
    static constexpr Op op = Op::scan;
    static constexpr uint32_t first_size = 24, known_flags = 0;
    uint32_t size = sizeof(ScanRequest), flags = 0;
    RemoteAddress start = {}, end = {};
};

using EndRequest = PlainRequest<Op::end>; // to what serves pages: no more of them; no reply

// Resume the program.
struct ResumeRequest {
    static constexpr Op op = Op::resume;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(ResumeRequest), flags = 0;
    int32_t why = 0;    // 0, or the errno for which there will be no image
    int32_t signal = 0; // the process sends it to itself before the program runs again; 0: none
};

// The checkpointer is alive.
struct AliveRequest {
    static constexpr Op op = Op::alive;
    static constexpr uint32_t first_size = 8;
    static constexpr uint32_t wants_reply = 1; // which shows that the program is stopped
    static constexpr uint32_t known_flags = wants_reply;
    uint32_t size = sizeof(AliveRequest), flags = 0;
};

// A packet: TimerFacts of a POSIX timer.
struct TimerRequest {
    static constexpr Op op = Op::timer;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(TimerRequest), flags = 0;
    int32_t id = 0;
    uint32_t reserved = 0;
};

// Descriptors are sent with the reply (SCM_RIGHTS), in ascending order.
struct DescriptorsRequest {
    static constexpr Op op = Op::descriptors;
    static constexpr uint32_t first_size = 40, known_flags = 0;
    uint32_t size = sizeof(DescriptorsRequest), flags = 0;
    int32_t first = 0;
    uint32_t reserved = 0;
    uint64_t wanted[descriptors_at_once / 64] = {}; // a bit for each, from `first` on
};

// A pseudo-terminal's master: sends the input queued at its slave (value bytes) and at itself
// (count bytes), a packet for each that is not empty. The data stays queued.
struct TerminalRequest {
    static constexpr Op op = Op::terminal;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(TerminalRequest), flags = 0;
    int32_t master = 0;
    uint32_t reserved = 0;
};

// Followed by a packet of up to policies_at_once RemoteAddress. A packet with as many Policy, which
// are their NUMA policies.
using PoliciesRequest = PlainRequest<Op::policies>;

// System V objects that the process has used: count packets of up to ipc_at_once IpcUse each, value
// of these in all. result −EOVERFLOW: some were not recorded, and the others follow.
using IpcRequest = PlainRequest<Op::ipc>;

// The messages of a POSIX message queue, which stay there. value bytes in count packets of up to
// queue_part bytes, as in image/messages.hpp.
struct QueueRequest {
    static constexpr Op op = Op::queue;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(QueueRequest), flags = 0;
    int32_t descriptor = 0;
    uint32_t reserved = 0;
};

// A packet, whatever the result: TrackerFacts; and the tracker's descriptor, if any, with the reply
// (SCM_RIGHTS).
struct TrackerRequest {
    static constexpr Op op = Op::tracker;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(TrackerRequest), flags = 0;
    // One of this kind is made if there is none; result −errno if that fails.
    TrackerKind kind = TrackerKind::none;
    uint32_t reserved = 0;
};

struct WatchedRequest {
    static constexpr Op op = Op::watched;
    static constexpr uint32_t first_size = 32;
    static constexpr uint32_t is_over = 1; // the tracker's descriptor is closed
    static constexpr uint32_t known_flags = is_over;
    uint32_t size = sizeof(WatchedRequest), flags = 0;
    uint64_t token[2] = {}; // of what is tracked from now on; zero: nothing can be relied on
    uint32_t notes = 0;     // to keep
    uint32_t reserved = 0;
};

struct StagedRun {
    RemoteAddress start, end;
};

// Comes with a file (SCM_RIGHTS); then `count` StagedRun follow, in packets of up to
// staged_at_once. This memory is written into the file consecutively. value: bytes; −EFAULT: not
// all of it can be read.
struct StageRequest {
    static constexpr Op op = Op::stage;
    static constexpr uint32_t first_size = 24, known_flags = 0;
    uint32_t size = sizeof(StageRequest), flags = 0;
    uint64_t count = 0;
    uint64_t offset = 0; // in the file
};

// A packet with a bit for each page, set if it is in memory, as mincore(2) reports.
struct TouchedRequest {
    static constexpr Op op = Op::touched;
    static constexpr uint32_t first_size = 24, known_flags = 0;
    uint32_t size = sizeof(TouchedRequest), flags = 0;
    RemoteAddress start = {};
    uint64_t count = 0; // pages, up to touched_at_once
};

// What the kernel adds to each semaphore of a System V set when the process ends (SEM_UNDO): a
// packet with an int16_t for each. −EXDEV: not all threads share one undo list.
struct UndoRequest {
    static constexpr Op op = Op::undo;
    static constexpr uint32_t first_size = 24, known_flags = 0;
    uint32_t size = sizeof(UndoRequest), flags = 0;
    int32_t id = 0;
    uint32_t first = 0; // semaphore of the set
    uint64_t count = 0; // up to undo_at_once
};

// A context of asynchronous I/O. −EBUSY: requests are under way; −ESRCH: the process has no such
// context; −E2BIG: more than aio_most events wait in it. value: the ring's head, and shifted by 32
// bits its tail; then in count packets of up to aio_at_once io_event the events between them.
struct AioRequest {
    static constexpr Op op = Op::aio;
    static constexpr uint32_t first_size = 32, known_flags = 0;
    uint32_t size = sizeof(AioRequest), flags = 0;
    RemoteAddress ring = {};
    uint64_t bytes = 0; // of the ring
    uint64_t idle = 0;  // how many requests such a context takes while none is under way
};

// The program is not dumpable: Stop is refused with −EPERM until the checkpointer has shown that
// the kernel lets it read all of the process. value: the address of a word; who may write there
// (/proc/PID/mem) may read, too, and sends once more what it has written. −EPERM: that is not what
// is there; or the program is not root's.
struct ProveRequest {
    static constexpr Op op = Op::prove;
    static constexpr uint32_t first_size = 16, known_flags = 0;
    uint32_t size = sizeof(ProveRequest), flags = 0;
    uint64_t written = 0; // 0: nothing yet
};

// One layout for all compilers, and no byte that is not a member's: it is sent as it is.
template <class... R>
constexpr bool are_sent_as_they_are = ((std::has_unique_object_representations_v<R> &&
                                        sizeof(R) >= R::first_size && sizeof(R) % 8 == 0) &&
                                       ...);
static_assert(are_sent_as_they_are<
              PrepareRequest, StopRequest, PagesRequest, ScanRequest, ResumeRequest, AliveRequest,
              TimerRequest, DescriptorsRequest, TerminalRequest, QueueRequest, TrackerRequest,
              WatchedRequest, StageRequest, TouchedRequest, UndoRequest, AioRequest, ProveRequest>);
static_assert(sizeof(Head) + sizeof(PrepareRequest) == 40 && sizeof(StagedRun) == 16);

} // namespace cryo::agent
