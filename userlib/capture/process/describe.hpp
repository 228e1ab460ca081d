// SPDX-License-Identifier: Apache-2.0
//
// Describes a stopped program as records, from /proc and from its agent: everything but the
// contents of its memory.
#pragma once

#include "capture/files/files.hpp"
#include "capture/files/ipc_objects.hpp"
#include "capture/memory/delta_plan.hpp"
#include "capture/memory/early_look.hpp"
#include "capture/memory/mapped_images.hpp"
#include "capture/memory/shared_contents.hpp"
#include "capture/memory/stage.hpp"
#include "capture/session/session.hpp"
#include "look/cpu.hpp"
#include "look/problems.hpp"
#include "look/regions.hpp"

#include <functional>
#include <map>

namespace cryo::capture {

// Where the program maps shared pages whose contents are saved.
struct SharedPart {
    uint32_t object;
    uint64_t page; // page of the object that is mapped at start
    uint64_t start, end;
    int protection; // of the mapping
    bool is_memory; // of memory alone: untouched pages stay holes
};

// State shared by the processes of a tree.
struct Common {
    explicit Common(const FileOptions &file_options)
        : options(file_options), files(strings, objects, file_options), ipc(strings, objects)
    {}
    Common(const Common &) = delete;
    Common &operator=(const Common &) = delete;

    const FileOptions &options;
    Strings strings;
    Objects objects;
    Files files;
    IpcObjects ipc;
    uint64_t deadline = 0;                    // monotonic clock, nanoseconds; 0: none
    uint64_t silence_ns = default_silence_ns; // how long to wait for an answer
    std::function<void(uint64_t)> moved;      // called with the bytes of memory as they arrive
    // Long operations must call it repeatedly; otherwise the stopped programs resume by themselves.
    std::function<void()> at_work = [] {};
    SharedContents shared;
    MappedImages images;
    const DeltaPlan *delta = nullptr;
    std::map<pid_t, Stage> stages; // room for changed pages, by process
};

struct Description {
    Description(pid_t pid, Common &common)
        : proc(pid), options(common.options), objects(common.objects), files(common.files),
          ipc(common.ipc)
    {}
    Description(const Description &) = delete;
    Description &operator=(const Description &) = delete;

    Proc proc;
    const FileOptions &options;
    Strings strings; // its own, since several processes are described in parallel
    Objects &objects;
    Files &files;
    IpcObjects &ipc;
    Problems problems;
    EarlyLook early;
    AddressSpace space;
    std::set<int> own_descriptors;       // Cryo's own, in the program
    std::vector<AddressRange> left_out;  // memory that is not the program's
    std::vector<agent::IpcUse> ipc_uses; // System V objects named in calls of its functions
    std::vector<Run> watched; // mappings watched by the agent (capture/memory/tracker.hpp)
    std::string status;       // /proc/PID/status, read in the stop
    std::map<uint32_t, std::string> thread_status; // the other threads' status, by tid
    image::Process process;
    image::Memory memory;
    image::Agent agent;
    CpuFacts cpu_facts; // set by the caller
    image::Cpu cpu;
    std::vector<image::Thread> threads; // main thread first
    std::vector<image::CallFilter> call_filters;
    std::vector<image::ThreadFilters> thread_filters; // of threads that are under some
    bool has_own_keys = false;   // in keyrings of its own or of its threads, which are not saved
    bool shares_outside = false; // its working directory, with its parent, which is not saved
    std::vector<image::Region> regions; // one per mapping, then vdso and vvar
    std::vector<image::Guard> guards;
    std::vector<image::AioContext> aio_contexts;
    std::vector<image::Sigaction> actions;
    std::vector<image::Timer> timers;
    std::vector<image::PendingSignal> pending;
    std::vector<image::Rlimit> limits;
    std::vector<image::Object> shared_objects;
    std::vector<SharedPart> shared;     // every page of an object once, over all processes
    std::vector<uint32_t> mapped_files; // FILE ids that must be identical at restart
    std::string arguments, environment;
    std::vector<uint64_t> auxv;
    std::vector<uint64_t> own_libraries; // one address inside each of Cryo's

    uint64_t huge_pages() const { return early.was_used() ? early.huge_pages() : space.huge_pages; }
};

// Sends the requests that describe() will need, to all processes before the first answer is
// awaited.
Result<void> ask_to_describe(AgentSession &session);
// Fill `d`; what cannot be saved is in d.problems afterwards. The memory of all processes is looked
// at before any descriptor, because requests of asynchronous I/O that end change those, and is
// described after the descriptors of all, because mapped files are among them. The first two may
// run for several processes in parallel.
Result<void> describe(Description &d, AgentSession &session);
Result<void> look_at_memory(Description &d, AgentSession &session);
// One process at a time, as all that is asked of Description::files.
void describe_directory(Description &d);
void describe_memory(Description &d, SharedContents &shared, MappedImages &images, bool is_first);
// Part of describe(): the threads, main thread first.
Result<void> describe_threads(Description &d, const std::vector<agent::ThreadFacts> &facts);
// Part of describe(): filters of system calls (seccomp) that the program has put on itself. The
// threads are known.
Result<void> describe_filters(Description &d, const AgentSession &session);
// Part of describe(): the CPU. Uses d.cpu_facts, which were found before the program was stopped.
void describe_cpu(Description &d);
// For a process saved by itself: children that are not in `known` become a problem.
void describe_children(Description &d, const std::set<pid_t> &known);

} // namespace cryo::capture
