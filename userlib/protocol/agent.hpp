// SPDX-License-Identifier: Apache-2.0
//
// The protocol between a checkpointer and the agent inside a program.
//
// The agent listens on a SOCK_SEQPACKET socket without a name (agent/door.cpp). One connection is
// one checkpoint: the program is stopped from the reply to Stop until Resume, or until the
// connection ends for whatever reason. Every message is one packet. Both ends are on one machine
// but may come from different releases of Cryo: an agent lives as long as its program, and comes
// back with an image.
//
// Each operation has a request with a type (requests.hpp), and each answer begins with a Reply.
// What either end can do is told by feature bits, in Prepare and in the reply Accepted. Releases
// before protocol 20 sent four numbers with each operation, and `version` told what they could do:
// what is said to them, and understood from them, is in older.hpp alone. Records that an agent
// sends are only ever appended to; what an older agent does not send counts as zeros.
//
//     checkpointer                agent
//       Prepare + RequestInfo ->  runs the program's callbacks
//                       <-        Reply{Accepted, count = its features}: at once, however long
//                                 the callbacks take
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
constexpr uint16_t protocol_version = 22;
constexpr int max_signals = 64;
constexpr const char *callback_thread_name = "cr callbacks"; // of libcr's own thread
constexpr const char *copy_name = "cryo copy";               // of the process that is a frozen copy

// Requests, with what is replied to them: requests.hpp.
enum class Op : uint16_t {
    stop = 1,
    threads = 2,
    process = 3,
    actions = 4,
    fork = 5,
    serve = 6,
    pages = 7,
    end = 8,
    resume = 9,
    prepare = 10,
    accepted = 11, // reply only; count: the agent's features
    done = 12,     // reply only
    own = 13,
    lodger = 14,
    timer = 16,
    forward = 17, // reply only; value: the target, count: a CR_SCOPE_*; no packets follow
    descriptors = 20,
    terminal = 21,
    watches = 22,
    policies = 23,
    ipc = 24,
    queue = 25,
    tracker = 26,
    watched = 27,
    stage = 28,
    touched = 29,
    undo = 30,
    scan = 31,
    alive = 32,
    // Sent by the agent, unasked, before it hangs up: the checkpointer was silent for `value`
    // milliseconds, and the program continues.
    called_off = 33,
    aio = 34,
    prove = 35,
};

// What one end can do that others could not once. Most name the request that an agent understands.
enum class Feature : uint64_t {
    forward = 1 << 0, // of a checkpointer: it takes Reply{Forward}
    policies = 1 << 1,
    ipc = 1 << 2,
    tracker = 1 << 3,
    stage = 1 << 4,
    touched = 1 << 5,
    undo = 1 << 6,
    soft_dirty = 1 << 7, // TrackerKind::soft_dirty, with the facts that belong to it
    scan = 1 << 8,
    alive = 1 << 9, // also signals sent by Resume
    aio = 1 << 10,
    // Of a checkpointer: before it connects, it finds out whether filters of system calls that the
    // program has put on itself let the agent's pass. Of an agent: it relies on that.
    judged_filters = 1 << 11,
    // Of a checkpointer: among the calls that it judges are those of ThreadFacts::tsc and what
    // follows.
    judged_settings = 1 << 12,
    prove = 1 << 13,
};
constexpr uint64_t all_features = (1 << 14) - 1;

constexpr bool has(uint64_t features, Feature one)
{
    return (features & static_cast<uint64_t>(one)) != 0;
}

constexpr uint32_t aio_most = 8192;
constexpr uint32_t aio_at_once = 1024;

// How long a checkpointer may be silent, unless it asks for another limit.
constexpr uint32_t default_silence_ms = 10'000;
// The limit before and within its first message (Prepare and RequestInfo), which contains the other
// limit: the checkpointer has nothing else to do then.
constexpr uint32_t first_word_ms = 3'000;

constexpr uint32_t scanned_at_once = 2048;

constexpr uint64_t undo_at_once = 1024;

constexpr uint64_t touched_at_once = 32768;

constexpr int staged_at_once = 512;

// Changes of memory are tracked through a userfaultfd that the agent keeps for the checkpointer
// (capture/memory/tracker.hpp).
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
// that no checkpoint relies on tracking that is about to change (capture/memory/early_copy.hpp).
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

// What every message begins with.
struct Head {
    uint32_t magic;
    uint16_t version;
    Op op;
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
    // Of protocol 22, zero before, and where a filter might end the program for asking:
    int32_t tsc;            // PR_TSC_…
    int32_t machine_check;  // 1 + PR_MCE_KILL_…
    int32_t speculation[3]; // by PR_SPEC_…, as PR_GET_SPECULATION_CTRL tells it
    int32_t cpuid;          // 1 + what ARCH_GET_CPUID tells: 1 if it traps
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
    // Of protocol 22, zero before, as ThreadFacts::tsc:
    uint32_t write_execute; // PR_MDWE_…
    // Older agents leave it 0, and so do those that a filter of system calls may forbid to ask.
    uint32_t segments; // 1: it has a local descriptor table (modify_ldt)
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
    // Of protocol 21: the parent-death signal that the restart has given to the main thread in
    // place of the program's own, which is saved instead; 0: it has its own.
    int32_t given_death_signal;
    int32_t own_death_signal;
};

// The reports of the agent to cr_restart through status_fd, one word each; the numbers between are
// the restorer's (restore/planner.hpp). The error of a callback may follow says_alive.
constexpr uint32_t says_alive = 1; // the process's last report
// Other threads of the process run the program from here on, and may end it before its last report.
constexpr uint32_t says_released = 5;

static_assert(sizeof(Head) == 8 && sizeof(Reply) == 32);
static_assert(sizeof(Context) == 64 && sizeof(ThreadFacts) == 320);
static_assert(sizeof(SignalAction) == 32 && sizeof(RequestInfo) == 4120);
static_assert(sizeof(LodgerFacts) == 9736 && sizeof(TrackerFacts) == 56);

} // namespace cryo::agent
