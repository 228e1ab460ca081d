// SPDX-License-Identifier: Apache-2.0
//
// The restart plan: what cr_restart hands to the fresh process that is to become the old one.
//
// A plan is a list of fixed-size operations, nearly all of them plain system calls, executed by
// the restorer (restorer/restorer.cpp), which knows nothing of images. All policy is in the
// planner; a new kind of kernel object usually needs planner code only.
//
//     offset 0        Header
//     header.ops      Op[header.op_count]
//     header.threads  Thread[header.thread_count]; the first is the main thread
//     header.avoid    Range[header.avoid_count]: where the restorer must not lie
//     ...             data that arguments point to: paths, structures
//
// Both sides are always of one release: the plan is made for the library that is preloaded.
#pragma once

#include "protocol/agent.hpp"

#include <cstdint>

namespace cryo::restore {

constexpr uint32_t plan_magic = 0x6e6c7043; // "Cpln"
constexpr int max_slots = 4096;             // results that later operations use

enum class Do : uint16_t {
    syscall = 0,   // number `nr` with `arg`
    unmap_all = 1, // everything but the restorer's own area
    fill = 2,      // read arg[2] bytes from descriptor arg[0] to address arg[1]
    threads = 3,   // create all but the main thread; each executes its own operations
    // *(u64 *)arg[0] = arg[1], of arg[2] bytes where that is 4: for structures in the plan
    store = 4,
    copy = 7,  // arg[2] bytes from arg[1] to arg[0]
    timer = 5, // create the POSIX timer with the id arg[2]: arg[0] clock, arg[1] the sigevent
    // The kernel module (descriptor arg[0]) gives up everything but the restorer's area, maps and
    // fills as the cryo_restore at arg[1] says; arg[2] bytes are to be filled.
    restore = 6,
    map = 8, // privately, from descriptor arg[3] with protection arg[2]: arg[1] Pieces at arg[0]
    // make the context of asynchronous I/O whose ring, of arg[1] bytes, lies at arg[0]: arg[2] a
    // SavedRing, arg[3] a file for requests that read nothing
    ring = 9,
    keep = 10,  // like unmap_all, but for arg[1] Ranges at arg[0], ascending
    empty = 12, // private memory, as if it had never been touched: arg[1] Ranges at arg[0]
    // Make a copy of this process with the id arg[0] (0: any), which starts over with a plan of its
    // own. Its descriptors, in the order of copy_offsets, are at arg[1] and above, those of the
    // copies that it makes in turn below arg[2]; arg[3] is the floor, and at arg[4] the
    // descriptors of copies end. arg[5]: CLONE_ bits of what the copy shares with this process.
    fork = 11,
};

// Descriptors that cr_restart gives to the fresh process, above the floor.
constexpr int plan_fd_offset = 0;
constexpr int go_fd_offset = 1; // where each of several processes waits for the others
// The environment of cr_restart: the program's agent has it until the program resumes.
constexpr int environment_fd_offset = 2;
constexpr int status_fd_offset = 3; // descriptors above this are closed first
constexpr int pages_fd_offset = 4;
constexpr int device_fd_offset = 5;
constexpr int first_free_offset = 6;
// A copy of a process has descriptors of its own in these places, and shares the others.
constexpr int copy_offsets[] = {plan_fd_offset, go_fd_offset, status_fd_offset, pages_fd_offset};
constexpr int copy_descriptors = 4;

// The first report of a copy; its pid follows.
constexpr uint32_t says_born = 6;

struct Piece {
    uint64_t address, length;
    uint64_t offset; // in the file
};

// Followed by the io_event from head to tail.
struct SavedRing {
    uint32_t requests; // for io_setup
    uint32_t slots, head, tail;
};

enum class Arg : uint8_t {
    value = 0, // used as it is
    data = 1,  // offset in the plan: its address
    slot = 2,  // result of an earlier operation
    load = 3,  // 32-bit number at this offset in the plan, where an earlier operation left it
};

enum class Expect : uint8_t {
    success = 0,  // not an error
    exact = 1,    // the result is `want`
    anything = 2, // may fail: best effort, for state that not every machine supports
};

struct Op {
    Do what;
    Expect expect;
    Arg kind[6];
    uint8_t reserved;
    uint16_t slot; // where the result goes; 0: nowhere
    uint32_t nr;   // of a system call
    uint64_t arg[6];
    uint64_t want;
};

struct Thread {
    int32_t tid;       // requested; 0: any
    uint32_t first_op; // what the thread does for itself
    uint32_t op_count;
    uint32_t reserved;
    uint64_t clear_child_tid; // glibc keeps the tid there
    agent::Context context;
};

struct Range {
    uint64_t start, end;
};

struct Header {
    uint32_t magic;
    uint32_t version;
    uint64_t size;
    uint64_t ops, op_count; // the main thread's share comes first: op_count of them
    uint64_t threads, thread_count;
    uint64_t avoid, avoid_count;
    uint64_t resume_info; // address in the restored program
    int32_t status_fd;
    int32_t plan_fd;
    int32_t device_fd; // /dev/cryo, which may choose thread ids; −1: none
    uint32_t home_id;  // see Ids (restorer/next_id.hpp)
    uint32_t least_id, greatest_id;
};

// Sent over status_fd when an operation fails.
struct Failure {
    uint32_t op;
    int32_t error; // errno
    uint64_t result;
};

static_assert(sizeof(Op) == 72 && sizeof(Thread) == 88 && sizeof(Header) == 96);

} // namespace cryo::restore
