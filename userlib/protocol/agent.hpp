// SPDX-License-Identifier: Apache-2.0
//
// The protocol between a checkpointer and the agent inside a program.
//
// The agent listens on a SOCK_SEQPACKET socket without a name (agent/door.cpp). One connection is
// one checkpoint: the program is stopped from the reply to Stop until Resume, or until the
// connection ends for whatever reason. Every message is one packet. Both ends are on one machine
// but may come from different releases of Cryo: fields are only ever appended, and `version` tells
// which fields exist.
//
//     checkpointer                agent
//       Prepare + RequestInfo ->  runs the program's callbacks
//                       <-        Reply{Accepted}: at once, however long the callbacks take
//                       <-        Reply{Forward}: a callback adds further processes (protocol
//                       4)
//                       <-        Reply{result 0, or −code and why; value: callbacks were run}
//       Stop            ->        parks every thread
//                       <-        Reply{result 0, value = threads}
//       Threads         ->
//                       <-        Reply{count}, then count packets of ThreadFacts
//       Process, Actions ...      Reply, then one packet
//       Fork + 2 fds    ->        a frozen copy serves pages (Pages, End) on the fds
//                       <-        Reply{value = pid of the copy}
//       Resume          ->        the program goes on
//                       <-        Reply{result 0}: the program was stopped until now
//                       <-        Reply{Done}: the callbacks have ended (if there were any)
#pragma once

#include <cstdint>

namespace cryo::agent {

constexpr uint32_t protocol_magic = 0x6f797243; // "Cryo"
constexpr uint16_t protocol_version = 19;
constexpr int max_signals = 64;
constexpr const char *callback_thread_name = "cr callbacks"; // of libcr's own thread
constexpr const char *copy_name = "cryo copy";               // of the process that is a frozen copy

enum class Op : uint16_t {
    stop = 1,    // park every thread
    threads = 2, // ThreadFacts of each
    process = 3, // ProcessFacts
    actions = 4, // SignalAction[64]
    // SCM_RIGHTS {command socket, page pipe} or {command socket, page pipe, /dev/cryo}: serve pages
    // from a frozen copy; with the device, the kernel module moves the pages.
    fork = 5,
    serve = 6, // the same, but the stopped program itself serves, until Op::end
    // arg[0] address, arg[1] length: the bytes go into the page pipe. arg[2] 1: pages beyond the
    // end of their file count as zeros. arg[3] the mapping's protection plus 1; 0: unknown.
    pages = 7,
    end = 8, // no more pages
    // Resume the program; arg[0] 0, or the errno for which there will be no image. arg[1]: a signal
    // that the process sends itself before the program runs again, or 0; from protocol 17 on.
    resume = 9,
    prepare = 10,
    accepted = 11,
    done = 12,
    forward = 17, // value: the target, count: a CR_SCOPE_*; no packets follow
    own = 13,     // OwnFacts
    lodger = 14,  // LodgerFacts, if there is a lodger; from protocol 3 on
    timer = 16,   // arg[0] the id of a POSIX timer: TimerFacts
    // arg[0] first descriptor, arg[1..3] a bit for each of the 192 from there on: those selected
    // are sent with the reply (SCM_RIGHTS), in ascending order.
    descriptors = 20,
    // arg[0] a pseudo-terminal's master: sends the input queued at its slave (value bytes) and at
    // itself (count bytes), a packet for each that is not empty. The data stays queued.
    terminal = 21,
    watches = 22, // count packets of WatchedPath, each followed by the path
    // Followed by a packet of up to policies_at_once addresses: the reply is one packet with as
    // many Policy records, their NUMA policies. From protocol 5 on.
    policies = 23,
    // System V objects that the process has used: count packets of up to ipc_at_once IpcUse each,
    // value of these in all. result −EOVERFLOW: some were not recorded. From protocol 6 on.
    ipc = 24,
    // arg[0] descriptor of a POSIX message queue: sends its messages, which stay there. value bytes
    // in count packets of up to queue_part bytes, as in image/messages.hpp. From protocol 8 on.
    queue = 25,
    // TrackerFacts, and the tracker's descriptor, if any, with the reply (SCM_RIGHTS). arg[0] a
    // TrackerKind: one of that kind is made if there is none; result −errno if that fails. From
    // protocol 9 on; soft_dirty from 13 on.
    tracker = 26,
    // arg[0], arg[1]: the token of what is tracked from now on; zero: nothing can be relied on.
    // arg[2] 1: the descriptor is closed. arg[3] notes to keep. From protocol 9 on.
    watched = 27,
    // SCM_RIGHTS {file}, then arg[0] StagedRun in packets of up to staged_at_once: this memory is
    // written into the file consecutively, from offset arg[1] on. value: bytes; −EFAULT: not all of
    // it can be read. From protocol 10 on.
    stage = 28,
    // arg[0] address, arg[1] up to touched_at_once pages: a packet with a bit for each page, set if
    // it is in memory, as mincore(2) reports. From protocol 12 on.
    touched = 29,
    // arg[0] a System V semaphore set, arg[1] its first semaphore, arg[2] a count (up to
    // undo_at_once): what the kernel adds to each when the process ends (SEM_UNDO), an int16_t
    // each. result −errno; −EXDEV: not all threads share one undo list. From protocol 13 on.
    undo = 30,
    // For the process that serves pages with the module's device: arg[0], arg[1] start and end of
    // memory whose soft-dirty bits are requested. result −errno; value: the address reached; a
    // packet of count cryo_run (linux/cryo.h). From protocol 16 on.
    scan = 31,
    // The checkpointer is alive and asks for nothing. arg[0] 1: the agent replies, which shows that
    // the program is stopped. From protocol 17 on.
    alive = 32,
    // Sent by the agent, unasked, before it hangs up: the checkpointer was silent for `value`
    // milliseconds, and the program continues. From protocol 17 on.
    called_off = 33,
    // arg[0], arg[1] address and bytes of the ring of a context of asynchronous I/O, arg[2] how
    // many requests such a context takes while none is under way. result −errno; −EBUSY: requests
    // are under way; −ESRCH: the process has no such context; −E2BIG: more than aio_most events
    // wait in it. value: the ring's head, and shifted by 32 bits its tail; then in count packets of
    // up to aio_at_once io_event the events between them. From protocol 18 on.
    aio = 34,
};

constexpr uint32_t aio_most = 8192;
constexpr uint32_t aio_at_once = 1024;

// How long a checkpointer may be silent, unless it asks for another limit.
constexpr uint32_t default_silence_ms = 10'000;
// How long before and within its first word (Prepare and RequestInfo), which tells that limit: it
// has nothing else to do.
constexpr uint32_t first_word_ms = 3'000;

constexpr uint32_t scanned_at_once = 2048;

constexpr uint64_t undo_at_once = 1024;

constexpr uint64_t touched_at_once = 32768;

struct StagedRun {
    uint64_t start, end; // addresses
};

constexpr int staged_at_once = 512;

// Changes of memory are tracked through a userfaultfd that the agent keeps for the checkpointer
// (capture/tracker.hpp).
enum class TrackerKind : int32_t {
    none = 0,
    write_protection = 1, // WP_ASYNC
    soft_dirty = 2,       // only tells old mappings from new ones
};

// Notes that the agent keeps for checkpointers; children of the program inherit them.
constexpr uint32_t note_cleared = 1; // a checkpointer has cleared the soft-dirty bits
constexpr uint32_t note_foreign = 2; // another program clears them, too

struct TrackerFacts {
    uint64_t token[2]; // zero: nothing is tracked
    int32_t has_fd;
    // Of protocol 13:
    TrackerKind kind; // of the descriptor
    // Address of two pages: the first is written whenever a soft_dirty token is set, the second
    // never.
    uint64_t marks;
    uint32_t notes;
    uint32_t reserved;
    // Of protocol 14:
    uint64_t mark;    // address of the TrackerMark; 0: there is none
    uint64_t changes; // as in TrackerMark
};

// The token in the program's memory, where a checkpointer may replace it while the program runs, so
// that no checkpoint relies on tracking that is about to change (capture/early_copy.hpp).
struct TrackerMark {
    uint64_t token[2];
    uint64_t changes; // how often the agent itself has set the token
    // If has_reads is reads_counted: the number of read(2) calls that were the agent's own, which
    // the kernel attributes to the program.
    uint64_t has_reads;
    uint64_t reads;
    // If has_writes is writes_counted: how many calls of process_vm_writev(2) are under way.
    uint64_t has_writes;
    uint64_t writes;
};
constexpr uint64_t reads_counted = 0x7364616572;    // "reads"
constexpr uint64_t writes_counted = 0x736574697277; // "writes"

constexpr uint64_t queue_part = 65536;

enum class IpcKind : uint16_t { segment = 1, semaphores = 2, queue = 3 };

// A System V object whose id a function of the C library took or returned.
struct IpcUse {
    int32_t id;
    IpcKind kind;
    uint16_t undo; // 1: a semaphore operation on it used SEM_UNDO
};

constexpr int ipc_at_once = 512;

constexpr int policies_at_once = 128;

// As get_mempolicy(2) reports it.
struct Policy {
    int32_t mode; // MPOL_, with its flags; 0: no policy of its own
    uint32_t reserved;
    uint64_t nodes[16]; // a bit for each node
};

// Reply to Prepare, value: why the result is below zero (a CR_CHECKPOINT_* flag), combined with
constexpr uint64_t with_callbacks = 1 << 8;

// A path that was given to inotify_add_watch.
struct WatchedPath {
    uint64_t inode, device;
    uint32_t length, reserved;
};

constexpr int descriptors_at_once = 192;
constexpr uint32_t terminal_most = 65536; // bytes in one direction

struct Command {
    uint32_t magic;
    uint16_t version;
    Op op;
    uint64_t arg[4];
};

struct Reply {
    uint32_t magic;
    uint16_t version;
    Op op;
    int64_t result; // 0 or −errno
    uint64_t value;
    uint64_t count; // packets that follow
};

// Where a parked thread is: enough to continue it inside the signal handler, whose return restores
// everything else from the signal frame.
struct Context {
    uint64_t rbx, rbp, r12, r13, r14, r15, rsp, rip;
};

struct ThreadFacts {
    int32_t tid;
    uint32_t rseq_size;
    Context context;
    uint64_t fs_base, gs_base;
    uint64_t frame; // address of the ucontext
    uint64_t clear_child_tid;
    uint64_t robust_head, robust_size;
    uint64_t rseq; // address, 0: none registered
    uint32_t rseq_signature;
    int32_t pdeathsig;
    uint64_t timer_slack; // nanoseconds
    // Of protocol 5:
    int32_t securebits;
    int32_t foreign_rseq; // 1: an rseq area is registered that is not the C library's
    Policy policy;        // the thread's default, for memory without a policy
    // Of protocol 15:
    int32_t registered_ring; // 1: it has an io_uring ring that needs no descriptor
    // Of protocol 19, zero before:
    int32_t own_keys; // 1: there are keys in its thread-keyring or process-keyring
};

// The kernel's layout for rt_sigaction.
struct SignalAction {
    uint64_t handler, flags, restorer, mask;
};

struct ProcessFacts {
    uint64_t brk;
    uint64_t resume_info; // address of the ResumeInfo in the program's memory
    int64_t itimer[3][4]; // real, virtual, prof: {interval s, µs, value s, µs}
    int32_t dumpable, no_new_privs, keep_caps, subreaper, thp_disable;
    int32_t control_fd, connection_fd;
    int32_t signal;           // the checkpoint signal
    uint64_t xcomp_permitted; // CPU state components granted to the program (AMX)
    // Of protocol 5:
    uint32_t mlockall;   // MCL_FUTURE and MCL_ONFAULT, for memory mapped from now on
    uint32_t membarrier; // MEMBARRIER_CMD_REGISTER_… that were called
    // Of protocol 7:
    int32_t memory_merge;     // PR_GET_MEMORY_MERGE
    uint32_t protection_keys; // a bit for each key from pkey_alloc
    // Of protocol 11:
    uint64_t since_advice; // agent/advice.hpp
};

// As timer_gettime reports it.
struct TimerFacts {
    int64_t interval, remaining; // remaining 0: not running
};

// A flag of RequestInfo: no callback may forward the request to the process that made it.
constexpr uint32_t without_requester = 1;

// What the program's callbacks may ask about a request. Sent after Prepare.
struct RequestInfo {
    int32_t signal, scope, requester, target;
    uint32_t flags;
    char dest[4096]; // the image's destination; empty: not a file
    // Of protocol 17: the program continues if it gets nothing from the requester, and can send it
    // nothing, for so long; 0: default_silence_ms. Until then: first_word_ms.
    uint32_t silence_ms;
};

// What in the process belongs to Cryo: descriptors that are not saved, and addresses inside
// libraries that are saved whole.
struct OwnFacts {
    uint64_t libraries[4];
    int32_t fds[64]; // −1: none
};

// The parts of the process that are not in an image (agent/lodger.hpp).
constexpr int lodger_fds = 65536;
constexpr uint32_t lodger_ranges = 64;
struct LodgerFacts {
    int32_t refused; // the program cannot be saved now
    uint32_t range_count;
    char what[256]; // reason and remedy
    char way_out[256];
    uint64_t ranges[lodger_ranges][2]; // start, end
    uint64_t fds[lodger_fds / 64];     // a bit for each
};

// Written by the restorer into the restored program before its threads go on.
struct ResumeInfo {
    uint64_t area, area_size; // the restorer's own memory, to be unmapped
    int32_t status_fd;        // tells cr_restart that the program runs again
    int32_t restarted;        // 1
    uint32_t left;            // threads that have left the restorer
    uint32_t expected;        // threads there are
    char source[4096];        // of protocol 2: path of the image
    // Of protocol 3: 1 + a descriptor with the restarting process's environment; 0: there is none.
    int64_t environment;
};

// What the agent tells cr_restart through status_fd, a word each; the numbers between are the
// restorer's (restore/planner.hpp). The error of a callback may follow says_alive.
constexpr uint32_t says_alive = 1; // the process's last report
// Other threads of the process run the program from here on, and may end it before its last report.
constexpr uint32_t says_released = 5;

static_assert(sizeof(Command) == 40 && sizeof(Reply) == 32);
static_assert(sizeof(Context) == 64 && sizeof(ThreadFacts) == 296);
static_assert(sizeof(SignalAction) == 32 && sizeof(RequestInfo) == 4120);
static_assert(sizeof(LodgerFacts) == 9736 && sizeof(TrackerFacts) == 56);

} // namespace cryo::agent
