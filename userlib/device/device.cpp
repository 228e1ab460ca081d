// SPDX-License-Identifier: Apache-2.0
#include "device/device.hpp"

#include "libcr.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/ioctl.h>

namespace cryo {

namespace {

Error cannot_open(int err, Device::Access access)
{
    std::string text = Device::path;
    switch (err) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
        text += ": the kernel module is not loaded; load it with 'modprobe cryo', or do without it "
                "(--backend=user)";
        break;
    case EACCES:
    case EPERM:
        text += access == Device::Access::ReadWrite
                    ? ": no permission to open it for writing; that is for members of its group "
                      "(usually 'cryo')"
                    : ": no permission to open it; its mode should be 0664, as the udev rule of "
                      "Cryo sets it";
        break;
    default:
        return Error::from_errno(text, err);
    }
    return Error(err, std::move(text));
}

// Repeats the request until the buffer is large enough for the whole list.
template <class Item, class Command>
Result<std::vector<Item>> whole_list(const Device &device, unsigned long number, const char *what,
                                     __u64 Command::*address, __u32 Command::*room,
                                     __u32 Command::*found)
{
    std::vector<Item> items(64);
    for (;;) {
        Command command = {};
        command.*address = reinterpret_cast<uintptr_t>(items.data());
        command.*room = static_cast<uint32_t>(items.size());
        if (int rc = device.call_raw(number, command); rc < 0)
            return Error::from_errno(std::string("listing ") + what + " with " + Device::path, -rc);
        const bool all = command.*found <= items.size();
        items.resize(command.*found);
        if (all)
            return items;
    }
}

} // namespace

int Device::call(int fd, unsigned long number, void *command)
{
    return ioctl(fd, number, command) == 0 ? 0 : -errno;
}

Result<Device> Device::open(Access access)
{
    const int mode = access == Access::ReadWrite ? O_RDWR : O_RDONLY;
    Fd fd(::open(path, mode | O_CLOEXEC));
    if (!fd)
        return cannot_open(errno, access);

    cryo_features features = {};
    features.size = sizeof(features);
    if (int rc = call(fd.get(), CRYO_IOC_FEATURES, &features); rc < 0)
        return Error(CR_EVERSION, std::string(path) +
                                      ": is not Cryo's device, or the module is older than "
                                      "this program; load the module that came with it (" +
                                      strerror(-rc) + ")");
    return Device(std::move(fd), features);
}

int Device::scan_raw(uint64_t &start, uint64_t end, uint32_t want, std::span<cryo_run> runs,
                     size_t &count) const
{
    cryo_scan scan = {};
    scan.start = start;
    scan.end = end;
    scan.runs = reinterpret_cast<uintptr_t>(runs.data());
    scan.max_runs = runs.size() > UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(runs.size());
    scan.want = want;
    int rc = call_raw(CRYO_IOC_SCAN, scan);
    if (rc < 0)
        return rc;
    start = scan.next;
    count = scan.nr_runs;
    return 0;
}

Result<std::vector<cryo_run>> Device::scan(uint64_t start, uint64_t end, uint32_t want) const
{
    constexpr size_t room = 4096;
    std::vector<cryo_run> runs;
    size_t filled = 0;

    while (start < end) {
        runs.resize(filled + room);
        size_t count = 0;
        int rc = scan_raw(start, end, want, std::span(runs).subspan(filled), count);
        if (rc < 0)
            return Error::from_errno("scanning memory with " + std::string(path), -rc);
        // Rejoin a run that was split at the end of a step.
        if (filled && count) {
            cryo_run &last = runs[filled - 1];
            const cryo_run &first = runs[filled];
            if (last.page_class == first.page_class && last.flags == first.flags) {
                last.npages += first.npages;
                runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(filled));
                count--;
            }
        }
        filled += count;
    }
    runs.resize(filled);
    return runs;
}

Result<std::vector<cryo_thread>> Device::threads() const
{
    Result<std::vector<cryo_thread>> threads =
        whole_list<cryo_thread>(*this, CRYO_IOC_THREADS, "threads", &cryo_threads::threads,
                                &cryo_threads::max_threads, &cryo_threads::nr_threads);
    // Older modules count threads that were made too late to be filled in, or that are gone.
    if (threads)
        std::erase_if(*threads, [](const cryo_thread &thread) { return thread.tid == 0; });
    return threads;
}

Result<std::vector<cryo_file>> Device::files() const
{
    return whole_list<cryo_file>(*this, CRYO_IOC_FILES, "descriptors", &cryo_files::files,
                                 &cryo_files::max_files, &cryo_files::nr_files);
}

int Device::announce_raw(const cryo_event &event) const
{
    cryo_event copy = event;
    return call_raw(CRYO_IOC_EVENT, copy);
}

} // namespace cryo
