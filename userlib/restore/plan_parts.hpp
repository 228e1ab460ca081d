// SPDX-License-Identifier: Apache-2.0
//
// State that the planner's parts, each in a file of its own, share while a plan is made.
#pragma once

#include "restore/planner.hpp"
#include "restore/saved.hpp"

#include <set>

namespace cryo::restore {

// An open socket whose queued data is sent again once every
// open file that may be in flight there is open, too.
struct Unfilled {
    uint32_t socket;
    uint32_t peer; // the socket that sends the data again; 0: `lone`
    Fd lone;       // the sender, an end that no process has any more
};

class MappedFiles;
class Namesakes;
class SocketsApart;
struct KeptMemory;

struct Planning {
    image::Image &image;
    const Saved &saved;
    const RestartOptions &options;
    RestartPlan &plan;
    std::set<uint32_t> redirected = {};          // OPEN_FILE ids replaced by something else
    std::map<uint32_t, int> open_fds;            // OPEN_FILE id → descriptor that is inherited
    std::map<uint32_t, uint16_t> open_slots;     // opened by the process itself: slot of its number
    std::map<uint32_t, int> file_fds;            // FILE id → inherited descriptor, to map from
    std::map<uint32_t, int> mapped_fds = {};     // the same, for files that are only mapped
    std::map<uint32_t, uint16_t> tid_slots = {}; // saved tid → slot with the present one
    const IpcObjects *ipc = nullptr;             // null: there are none
    MappedFiles *mapped = nullptr;               // shared by the whole tree
    std::vector<Unfilled> unfilled = {};
    std::map<uint64_t, bool> has_huge_pages = {}; // by page size: as decided for all its memory
    std::map<uint32_t, Fd> renamed_sockets = {};  // by OPEN_FILE: bound, and opened in their turn
    const KeptMemory *kept = nullptr;             // of a copy of its parent (plan_copies.hpp)
    std::shared_ptr<Namesakes> namesakes = {};    // while sockets are made (peers.hpp)
    std::map<uint32_t, Operand> filters = {};     // CALL_FILTER id → its sock_fprog in the plan
    // Until they are connected and filled.
    std::shared_ptr<SocketsApart> sockets_apart = {};
};

// planner.cpp: for facts that several threads or mappings have in common.
void notice_once(Planning &p, std::string notice);

// planner.cpp: all of one process whose files are
// open. `alone`: it need not wait for other processes.
Result<void> plan_process_whole(Planning &p, bool alone);

// plan_files.cpp: opening, positions, descriptor numbers; then, with the table complete,
// locks; and at the end, when nothing can fail any more, cutting files back to their size.
Result<void> open_files(Planning &p);
Result<void> plan_files(Planning &p);
void plan_last_descriptor_work(Planning &p);
void plan_truncation(Planning &p);

// plan_exec.cpp: runs after the mapped files are opened, of which the program is one.
Result<void> plan_exec(Planning &p);

// mapped_files.cpp: opens and checks them.
Result<void> check_mapped_files(Planning &p);
int fd_to_map(const Planning &p, const image::Region &region);

// plan_memory.cpp
Result<void> plan_memory(Planning &p);
// Shared with plan_memory_module.cpp:
bool needs_file(const image::Region &region);
// Address ranges of a region that have contents in the image.
Result<std::vector<Range>> contents_of(image::Image &image, const image::Region &region);
// The ranges that are sent to the process.
Result<std::vector<Range>> filled_parts(Planning &p, const image::Region &region);
// How a region is mapped at first. Private memory is filled before it gets
// its protection, so it is mapped writable where it has contents. Only
// there: the kernel reserves memory for writable mappings, and a program may
// keep more address space without any access than the machine has memory.
struct Stretch {
    uint64_t start, end;
    uint32_t prot;
};
Result<std::vector<Stretch>> stretches_of(image::Image &image, const image::Region &region);
// Which pages a mapped region is to consist of: before it is filled,
// because neither advice nor a policy exchanges pages that are there.
void plan_choice_of_pages(Planning &p, const image::Region &region);

// plan_memory_module.cpp: the same by one operation of the kernel module,
// for the regions that it can make. False: plan_memory() maps this one.
bool module_makes(const Planning &p, const image::Region &region);
Result<void> plan_module_memory(Planning &p);

// plan_aio.cpp: contexts of asynchronous I/O, whose rings lie where nothing else is.
Result<void> plan_aio(Planning &p);
image::Region ring_of(const image::AioContext &context);

// plan_guards.cpp: guard pages, and locking a region that has some.
void plan_guards(Planning &p, const image::Region &region);
void plan_lock(Planning &p, const image::Region &region);

// plan_huge.cpp: mmap's flags for a hugetlb region; 0, with a notice, if too few pages are free.
int huge_page_flags(Planning &p, const image::Region &region);
// Pages that are free and not reserved, and those that may still be added as surplus.
int64_t free_huge_pages(uint64_t page_size);

// plan_lazy.cpp: memory that is mapped from the image instead of filled.
bool is_lazy(const Planning &p, const image::Region &region);
Result<void> plan_lazy_region(Planning &p, const image::Region &region);
void note_lazy(Planning &p);

// plan_segments.cpp: System V shared memory.
bool is_segment(const image::Region &region);
Result<void> plan_segments(Planning &p);

// plan_semaphores.cpp: what System V semaphores record of the process (SEM_UNDO, GETPID).
Result<void> plan_semaphore_undo(Planning &p);
void plan_semaphore_pids(Planning &p);

// plan_vdso.cpp: the kernel's own pages (vDSO).
Result<void> plan_vdso(Planning &p);

// plan_numa.cpp: the NUMA policies of threads and regions.
void plan_thread_policy(Planning &p, const image::Thread &thread);
void plan_region_policy(Planning &p, const image::Region &region);

// plan_cpu.cpp: whether this CPU has the features that the program uses.
Result<void> check_cpu(Planning &p);

// plan_limits.cpp: resource limits, before memory is made, and last, when the process is complete.
Result<void> plan_room(Planning &p);
void plan_limits(Planning &p);

// plan_process.cpp: ids, threads.
Result<void> plan_process(Planning &p);
Result<void> plan_threads(Planning &p);

// plan_settings.cpp: whether others may inspect the process: the first of all that is planned, for
// one that is not dumpable, and late for one that is. Settings of prctl(2) that a thread has of its
// own; and, once all memory is made, that none may be written and executed any more.
void plan_not_dumpable(Planning &p);
void plan_dumpable(Planning &p);
Result<void> plan_thread_settings(Planning &p, const image::Thread &thread, const std::string &who);
void plan_write_execute(Planning &p);

// plan_filters.cpp: filters of system calls (seccomp) that the program has put on itself: in the
// plan before there are threads, and put on as the last of all that a thread does for itself.
Result<void> check_surroundings(Planning &p);
Result<void> place_filters(Planning &p);
Result<void> plan_filters(Planning &p, const image::Thread &thread);

// plan_credentials.cpp: privileges of the process, before it has threads, and of each thread.
Result<void> plan_credentials(Planning &p);
void plan_capabilities(Planning &p, const image::Thread &thread, const std::string &who);
// Whether the thread may put filters of system calls on itself once it has its capabilities.
bool may_put_on_filters(const Planning &p, const image::Thread &thread);
void plan_io_priority(Planning &p, const image::Thread &thread, const std::string &who);
void plan_io_flusher(Planning &p, const image::Thread &thread, const std::string &who);

// plan_scheduling.cpp
void plan_scheduling(Planning &p, const image::Thread &thread, const std::string &who);

// plan_signals.cpp: actions; signals pending for a thread, planned as that thread's
// own operations; and at the end signals pending for the process, and the timers.
void plan_actions(Planning &p);
void plan_thread_signals(Planning &p, const image::Thread &thread);
Result<void> plan_process_signals(Planning &p);
Result<void> plan_timers(Planning &p);
// Of a process that was saved as stopped: which signal stops it again, once that is let through.
int stop_signal_of(const Saved &saved);
void plan_stop(Planning &p);

} // namespace cryo::restore
