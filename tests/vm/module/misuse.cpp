// SPDX-License-Identifier: Apache-2.0
#include "misuse.hpp"

#include <cstddef>
#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace cryo::test {
namespace {

cryo_run scan_runs[4];
cryo_thread some_threads[4];
cryo_file some_files[4];
cryo_range one_range;
cryo_region one_region;

std::vector<Command> &listed()
{
    static std::vector<Command> list;
    return list;
}

} // namespace

Listed::Listed(Command command)
{
    listed().push_back(std::move(command));
}

cryo_restore restore_of(std::span<const cryo_region> regions, std::span<const cryo_range> ranges,
                        int fd)
{
    cryo_restore restore = {};
    restore.size = sizeof(restore);
    restore.keep_start = kept_from;
    restore.keep_end = kept_to;
    restore.regions = reinterpret_cast<uintptr_t>(regions.data());
    restore.nr_regions = static_cast<uint32_t>(regions.size());
    restore.ranges = reinterpret_cast<uintptr_t>(ranges.data());
    restore.nr_ranges = static_cast<uint32_t>(ranges.size());
    restore.fd = fd;
    return restore;
}

int scratch_file()
{
    static const int fd = [] {
        const int made = memfd_create("scratch", MFD_CLOEXEC);
        if (ftruncate(made, static_cast<off_t>(16 * page)) != 0)
            abort();
        return made;
    }();
    return fd;
}

std::vector<Command> commands()
{
    std::vector<Command> all = {
        {"FEATURES",
         CRYO_IOC_FEATURES,
         sizeof(cryo_features),
         [](void *) {},
         {offsetof(cryo_features, flags)}},
        {"SCAN",
         CRYO_IOC_SCAN,
         sizeof(cryo_scan),
         [](void *p) {
             auto *scan = static_cast<cryo_scan *>(p);
             scan->start = reinterpret_cast<uintptr_t>(scan_runs) & ~(page - 1);
             scan->end = scan->start + page;
             scan->runs = reinterpret_cast<uintptr_t>(scan_runs);
             scan->max_runs = 4;
         },
         {offsetof(cryo_scan, flags), offsetof(cryo_scan, reserved)},
         offsetof(cryo_scan, runs),
         offsetof(cryo_scan, max_runs)},
        {"EVENT",
         CRYO_IOC_EVENT,
         sizeof(cryo_event),
         [](void *p) {
             auto *event = static_cast<cryo_event *>(p);
             event->operation = CRYO_OP_CHECKPOINT;
             event->phase = CRYO_PHASE_STARTED;
         },
         {offsetof(cryo_event, flags), offsetof(cryo_event, reserved),
          offsetof(cryo_event, reserved2)},
         0,
         0,
         offsetof(cryo_event, target),
         0,
         CRYO_FEATURE_EVENTS},
        {"THREADS",
         CRYO_IOC_THREADS,
         sizeof(cryo_threads),
         [](void *p) {
             auto *threads = static_cast<cryo_threads *>(p);
             threads->threads = reinterpret_cast<uintptr_t>(some_threads);
             threads->max_threads = 4;
         },
         {offsetof(cryo_threads, flags)},
         offsetof(cryo_threads, threads),
         offsetof(cryo_threads, max_threads)},
        {"FILES",
         CRYO_IOC_FILES,
         sizeof(cryo_files),
         [](void *p) {
             auto *files = static_cast<cryo_files *>(p);
             files->files = reinterpret_cast<uintptr_t>(some_files);
             files->max_files = 4;
         },
         {offsetof(cryo_files, flags)},
         offsetof(cryo_files, files),
         offsetof(cryo_files, max_files)},
        {"DUMP",
         CRYO_IOC_DUMP,
         sizeof(cryo_dump),
         [](void *p) {
             one_range.start = reinterpret_cast<uintptr_t>(scan_runs) & ~(page - 1);
             one_range.end = one_range.start + page;
             auto *dump = static_cast<cryo_dump *>(p);
             dump->ranges = reinterpret_cast<uintptr_t>(&one_range);
             dump->nr_ranges = 1;
             dump->fd = scratch_file();
         },
         {offsetof(cryo_dump, flags), offsetof(cryo_dump, reserved)},
         0,
         0,
         0,
         offsetof(cryo_dump, fd),
         CRYO_FEATURE_DUMP},
        {"RESTORE",
         CRYO_IOC_RESTORE,
         sizeof(cryo_restore),
         [](void *p) {
             // All of this program's memory lies above, so none of it is unmapped.
             one_region = {};
             one_region.start = free_area;
             one_region.end = free_area + 4 * page;
             one_region.fd = -1;
             one_region.prot = rw;
             one_range.start = free_area + page;
             one_range.end = free_area + 3 * page;
             auto *restore = static_cast<cryo_restore *>(p);
             restore->keep_start = kept_from;
             restore->keep_end = kept_to;
             restore->regions = reinterpret_cast<uintptr_t>(&one_region);
             restore->nr_regions = 1;
             restore->ranges = reinterpret_cast<uintptr_t>(&one_range);
             restore->nr_ranges = 1;
             restore->fd = scratch_file();
         },
         {offsetof(cryo_restore, flags), offsetof(cryo_restore, reserved)},
         0,
         0,
         0,
         0,
         CRYO_FEATURE_RESTORE},
    };
    all.insert(all.end(), listed().begin(), listed().end());
    return all;
}

} // namespace cryo::test
