// SPDX-License-Identifier: Apache-2.0
//
// Everything about a stopped program but the contents of its memory: what /proc and its agent tell,
// as records.
#pragma once

#include "capture/cpu.hpp"
#include "capture/delta_plan.hpp"
#include "capture/early_look.hpp"
#include "capture/files.hpp"
#include "capture/ipc_objects.hpp"
#include "capture/mapped_images.hpp"
#include "capture/problems.hpp"
#include "capture/regions.hpp"
#include "capture/session.hpp"
#include "capture/shared_contents.hpp"
#include "capture/stage.hpp"

#include <functional>
#include <map>

namespace cryo::capture {

// Where the program has pages of shared memory mapped whose contents are saved.
struct SharedPart {
    uint32_t object;
    uint64_t page; // of the object, at start
    uint64_t start, end;
    int protection; // of the mapping
    bool is_memory; // and of no file, so that what was never touched is a hole
};

// What the processes of a tree have in common.
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
    uint64_t deadline = 0;                    // of the monotonic clock, nanoseconds; 0: none
    uint64_t silence_ns = default_silence_ns; // for how long an answer is waited for
    std::function<void(uint64_t)> moved;      // told of bytes of memory as they arrive
    // To be called again and again by what takes long: else the programs, which stand still, go on.
    std::function<void()> at_work = [] {};
    SharedContents shared;
    MappedImages images;
    const DeltaPlan *delta = nullptr;
    std::map<pid_t, Stage> stages; // room for what has changed, by process
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
    Strings strings; // its own: several are described at a time
    Objects &objects;
    Files &files;
    IpcObjects &ipc;
    Problems problems;
    EarlyLook early;
    AddressSpace space;
    std::set<int> own_descriptors;       // Cryo's, in the program
    std::vector<AddressRange> left_out;  // memory that is not the program's
    std::vector<agent::IpcUse> ipc_uses; // System V objects that its functions have named
    std::vector<Run> watched;            // mappings that the agent watches (capture/tracker.hpp)
    std::string status;                  // /proc/PID/status, in the stop
    std::map<uint32_t, std::string> thread_status; // the same of the other threads, by tid
    image::Process process;
    image::Memory memory;
    image::Agent agent;
    CpuFacts cpu_facts; // set by the caller
    image::Cpu cpu;
    std::vector<image::Thread> threads; // the main thread first
    std::vector<image::Region> regions; // one per mapping, then vdso and vvar
    std::vector<image::Guard> guards;
    std::vector<image::Sigaction> actions;
    std::vector<image::Timer> timers;
    std::vector<image::PendingSignal> pending;
    std::vector<image::Rlimit> limits;
    std::vector<image::Object> shared_objects;
    std::vector<SharedPart> shared;     // each page of an object once, of all processes
    std::vector<uint32_t> mapped_files; // FILE ids that must be the same at restart
    std::string arguments, environment;
    std::vector<uint64_t> auxv;
    std::vector<uint64_t> own_libraries; // an address inside each of Cryo's

    uint64_t huge_pages() const { return early.was_used() ? early.huge_pages() : space.huge_pages; }
};

// What describe() will want to be answered, asked for in all processes before the first answer is
// waited for.
Result<void> ask_to_describe(AgentSession &session);
// Fill `d`. What cannot be saved is in d.problems afterwards. The memory comes last, when the
// descriptors of all processes have been read: mapped files are among them. And it is looked at in
// all processes before the first is described. The first two may run for several processes at a
// time.
Result<void> describe(Description &d, AgentSession &session);
Result<void> look_at_memory(Description &d, AgentSession &session);
// One process at a time, as all that is asked of Description::files.
void describe_directory(Description &d);
void describe_memory(Description &d, SharedContents &shared, MappedImages &images, bool is_first);
// Of describe(): the threads, the first one first.
Result<void> describe_threads(Description &d, const std::vector<agent::ThreadFacts> &facts);
// A process that is saved by itself: children that are not among those who are known are a problem.
void describe_children(Description &d, const std::set<pid_t> &known);

} // namespace cryo::capture
