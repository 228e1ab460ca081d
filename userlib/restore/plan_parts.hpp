// SPDX-License-Identifier: Apache-2.0
//
// The planner's parts, each in a file of its own: what they share while a plan is made.
#pragma once

#include "restore/planner.hpp"
#include "restore/saved.hpp"

#include <set>

namespace cryo::restore {

// A socket that is open, and is to be filled with what waited in it when all that may be on its way
// there is open, too.
struct Unfilled {
    uint32_t socket;
    uint32_t peer; // which sends it all again; 0: `lone`
    Fd lone;       // that nobody has any more
};

class MappedFiles;

struct Planning {
    image::Image &image;
    const Saved &saved;
    const RestartOptions &options;
    RestartPlan &plan;
    std::set<uint32_t> redirected = {};          // OPEN_FILE ids that something else stands for
    std::map<uint32_t, int> open_fds;            // OPEN_FILE id → descriptor that is inherited
    std::map<uint32_t, uint16_t> open_slots;     // those that the process opens: slot with it
    std::map<uint32_t, int> file_fds;            // FILE id → inherited descriptor, to map from
    std::map<uint32_t, int> mapped_fds = {};     // the same, of files that are only mapped
    std::map<uint32_t, uint16_t> tid_slots = {}; // saved tid → slot with the present one
    const IpcObjects *ipc = nullptr;             // where there are any
    MappedFiles *mapped = nullptr;               // of the whole tree
    std::vector<Unfilled> unfilled = {};
};

// planner.cpp: everything of one process whose files are open. `alone`: it need not wait for
// others.
Result<void> plan_process_whole(Planning &p, bool alone);

// plan_files.cpp: opening, positions, descriptor numbers; then, with the table complete, locks; and
// the end, when nothing can fail any more: cutting files back to their size.
Result<void> open_files(Planning &p);
Result<void> plan_files(Planning &p);
void plan_last_descriptor_work(Planning &p);
void plan_truncation(Planning &p);

// plan_exec.cpp: after the mapped files, of which the program is one.
Result<void> plan_exec(Planning &p);

// mapped_files.cpp: opens them.
Result<void> check_mapped_files(Planning &p);
int fd_to_map(const Planning &p, const image::Region &region);

// plan_memory.cpp
Result<void> plan_memory(Planning &p);
// What plan_memory_module.cpp shares with it.
bool needs_file(const image::Region &region);
// Runs of a region that have contents in the image, as addresses.
Result<std::vector<Range>> filled_parts(Planning &p, const image::Region &region);
// How a region is mapped at first. Private memory is filled before it gets its protection, so it
// may be written where it has contents. Only there: the kernel reserves memory for what may be
// written, and there may be more addresses that a program keeps without any rights than the machine
// has memory.
struct Stretch {
    uint64_t start, end;
    uint32_t prot;
};
Result<std::vector<Stretch>> stretches_of(const Planning &p, const image::Region &region);

// plan_memory_module.cpp: the same by one operation of the kernel module, for the regions that it
// can make. False: this one is left to others.
bool module_makes(const Planning &p, const image::Region &region);
Result<void> plan_module_memory(Planning &p);
// At the end, as plan_truncation: files whose contents go back to what they were, through memory.
Result<void> plan_shared_files(Planning &p);

// plan_guards.cpp: pages that must not be touched, and locking a region that has some.
void plan_guards(Planning &p, const image::Region &region);
void plan_lock(Planning &p, const image::Region &region);

// plan_huge.cpp: what mmap is told of a region of hugetlb; 0 where no pages are free, as is said.
int huge_page_flags(Planning &p, const image::Region &region);
// Free and not promised to anybody, or allowed beyond those that are set aside.
int64_t free_huge_pages(uint64_t page_size);

// plan_lazy.cpp: memory that is mapped from the image instead of filled.
bool is_lazy(const Planning &p, const image::Region &region);
Result<void> plan_lazy_region(Planning &p, const image::Region &region);
void note_lazy(Planning &p);

// plan_segments.cpp: System V shared memory.
bool is_segment(const image::Region &region);
Result<void> plan_segments(Planning &p);

// plan_semaphores.cpp: what System V semaphores know of the process.
Result<void> plan_semaphore_undo(Planning &p);
void plan_semaphore_pids(Planning &p);

// plan_vdso.cpp: the kernel's own pages.
Result<void> plan_vdso(Planning &p);

// plan_numa.cpp: where memory is to lie.
void plan_thread_policy(Planning &p, const image::Thread &thread);
void plan_region_policy(Planning &p, const image::Region &region);

// plan_cpu.cpp: whether this CPU has what the program uses.
Result<void> check_cpu(Planning &p);

// plan_limits.cpp: before memory is made, and last, when the process is whole.
Result<void> plan_room(Planning &p);
void plan_limits(Planning &p);

// plan_process.cpp: ids, threads.
Result<void> plan_process(Planning &p);
Result<void> plan_threads(Planning &p);

// plan_credentials.cpp: what the process may do, before it has threads; and of each thread.
Result<void> plan_credentials(Planning &p);
void plan_capabilities(Planning &p, const image::Thread &thread, const std::string &who);
void plan_io_priority(Planning &p, const image::Thread &thread, const std::string &who);

// plan_signals.cpp: actions; what waits for a thread, planned as that thread's own operations; and
// at the end what waits for the process, and the timers.
void plan_actions(Planning &p);
void plan_thread_signals(Planning &p, const image::Thread &thread);
Result<void> plan_process_signals(Planning &p);
Result<void> plan_timers(Planning &p);

} // namespace cryo::restore
