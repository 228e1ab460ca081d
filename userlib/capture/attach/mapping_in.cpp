// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/mapping_in.hpp"

#include "capture/attach/remote_memory.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace cryo::capture {

namespace {

constexpr uint64_t page_mask = 4095;

uint64_t page_up(uint64_t address)
{
    return (address + page_mask) & ~page_mask;
}

bool is_error(int64_t result)
{
    return result < 0 && result > -4096;
}

// Makes a system call that must not fail.
template <class... Args>
Result<uint64_t> must(Intrusion &inside, const std::string &what, long number, Args... args)
{
    const Result<int64_t> result = inside.call(number, args...);
    if (!result)
        return result.error();
    if (is_error(*result))
        return Error::from_errno(fmt::format("process {}: {}", inside.pid(), what),
                                 static_cast<int>(-*result));
    return static_cast<uint64_t>(*result);
}

// What the program opened must be the file that this command has read.
Result<void> check_file(Intrusion &inside, const AgentLibrary &library, uint64_t fd)
{
    struct stat status;
    const std::string path = Proc(inside.pid()).path(fmt::format("fd/{}", fd));
    if (stat(path.c_str(), &status) == 0 && status.st_dev == library.device &&
        status.st_ino == library.inode)
        return {};
    return Error(ENOTSUP, fmt::format("process {} has other files than this command: {} is another "
                                      "one there; run cr_checkpoint where it runs",
                                      inside.pid(), library.path));
}

Result<void> map_segment(Intrusion &inside, const AgentLibrary::Segment &segment,
                         RemoteAddress base, uint64_t fd)
{
    const uint64_t start = segment.address & ~page_mask;
    const uint64_t file_end = segment.address + segment.file_size;
    const uint64_t file_pages = page_up(file_end) - start;
    Result<uint64_t> mapped =
        must(inside, "Cryo's agent cannot be mapped (is its file system mounted noexec?)", SYS_mmap,
             (base + start).number(), file_pages, segment.prot, MAP_PRIVATE | MAP_FIXED, fd,
             segment.offset & ~page_mask);
    if (!mapped)
        return mapped.error();
    if (segment.memory_size <= segment.file_size)
        return {};
    const std::vector<char> zeros(page_up(file_end) - file_end);
    if (!write_memory(inside.pid(), base + file_end, zeros.data(), zeros.size()))
        return Error(EFAULT,
                     fmt::format("process {}: its memory has changed under Cryo", inside.pid()));
    const uint64_t end = page_up(segment.address + segment.memory_size);
    if (end == page_up(file_end))
        return {};
    mapped = must(inside, "there is no memory for Cryo's agent", SYS_mmap,
                  (base + page_up(file_end)).number(), end - page_up(file_end), segment.prot,
                  MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, ~uint64_t{0}, 0);
    return mapped ? Result<void>() : Result<void>(mapped.error());
}

// Without effect on a file, and so used by nobody else: Cryo's descriptor is told from others that
// the program has of the same file.
constexpr uint64_t mark = O_NONBLOCK | O_ASYNC;

bool is_marked(const Proc &proc, int fd)
{
    const Result<std::string> info = proc.read(fmt::format("fdinfo/{}", fd));
    std::string_view flags = info ? field(*info, "flags") : std::string_view();
    return (take_number(flags, 8) & mark) == mark;
}

} // namespace

void close_left_open(Intrusion &inside, const AgentLibrary &library)
{
    const Proc proc(inside.pid());
    const Result<std::vector<int>> all = proc.numbers("fd");
    for (const int fd : all ? *all : std::vector<int>()) {
        const Result<std::string> link = proc.link(fmt::format("fd/{}", fd));
        if (link && *link == library.path && is_marked(proc, fd) &&
            check_file(inside, library, static_cast<uint64_t>(fd)))
            (void)inside.call(SYS_close, fd);
    }
}

namespace {

Result<void> map_segments(Intrusion &inside, const AgentLibrary &library, RemoteAddress base)
{
    Result<uint64_t> fd = must(inside, fmt::format("it cannot open Cryo's agent, {}", library.path),
                               SYS_openat, static_cast<uint64_t>(AT_FDCWD), inside.path().number(),
                               O_RDONLY | O_CLOEXEC | mark, 0);
    if (!fd)
        return fd.error();
    Result<void> done = check_file(inside, library, *fd);
    // The first one, by which the library is found again, comes last: it is complete then.
    for (auto segment = library.segments.rbegin(); segment != library.segments.rend(); ++segment) {
        if (done)
            done = map_segment(inside, *segment, base, *fd);
    }
    const Result<int64_t> closed = inside.call(SYS_close, *fd);
    return done && !closed ? Result<void>(closed.error()) : done;
}

} // namespace

Result<RemoteAddress> map_library(Intrusion &inside, const AgentLibrary &library)
{
    const Result<uint64_t> room =
        must(inside, "there is no memory for Cryo's agent", SYS_mmap, 0, library.span, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~uint64_t{0}, 0);
    if (!room)
        return room.error();
    const RemoteAddress base(*room);
    const Result<void> mapped = map_segments(inside, library, base);
    if (mapped)
        return base;
    unmap_library(inside, library, base);
    return mapped.error();
}

void unmap_library(Intrusion &inside, const AgentLibrary &library, RemoteAddress base)
{
    (void)inside.call(SYS_munmap, base.number(), library.span);
}

} // namespace cryo::capture
