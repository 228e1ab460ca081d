// SPDX-License-Identifier: Apache-2.0
// eventfd(2): a counter.
#include "resources/differences.hpp"
#include "resources/every_kind.hpp"

#include "look/proc.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

// Reads the counter of an eventfd without blocking.
ssize_t read_now(int fd, uint64_t &value)
{
    iovec part = {&value, sizeof(value)};
    return preadv2(fd, &part, 1, -1, RWF_NOWAIT);
}

// Kernels before 6.5 do not report whether an eventfd is a semaphore. A read shows it; the counter
// is restored unnoticed, because all threads are stopped.
Result<bool> is_semaphore(int fd, uint64_t count)
{
    const uint64_t two = 2;
    uint64_t got = 0;
    if (count < 2) {
        const uint64_t more = two - count;
        if (write(fd, &more, sizeof(more)) != sizeof(more))
            return Error::from_errno("looking at an eventfd", errno);
    }
    const uint64_t present = count < 2 ? two : count;
    if (read_now(fd, got) != sizeof(got))
        return Error::from_errno("looking at an eventfd", errno);
    uint64_t left = present - got;
    uint64_t rest = 0;
    while (left > count) {
        if (read_now(fd, rest) != sizeof(rest))
            return Error::from_errno("looking at an eventfd", errno);
        left -= rest;
    }
    const uint64_t missing = count - left;
    if (missing > 0 && write(fd, &missing, sizeof(missing)) != sizeof(missing))
        return Error::from_errno("looking at an eventfd", errno);
    return got == 1;
}

Result<void> save(Saving &saving, const Seen &seen)
{
    image::Eventfd record;
    record.open_file = seen.open_file;
    std::string_view count = capture::field(seen.info, "eventfd-count");
    record.count = capture::take_number(count, 16);
    const std::string_view semaphore = capture::field(seen.info, "eventfd-semaphore");
    if (semaphore.empty()) {
        Result<bool> answer = is_semaphore(seen.shared.get(), record.count);
        if (!answer)
            return answer.error();
        record.semaphore = *answer;
    } else {
        record.semaphore = semaphore == "1";
    }
    saving.records().add(record);
    return {};
}

Result<void> open_one(Opening &opening, const image::Eventfd &saved)
{
    const Result<const image::OpenFile *> open_file = opening.named(saved.open_file, "an eventfd");
    if (!open_file)
        return open_file.error();
    const int flags = EFD_CLOEXEC | static_cast<int>((*open_file)->flags & O_NONBLOCK) |
                      (saved.semaphore ? EFD_SEMAPHORE : 0);
    Fd made(eventfd(0, flags));
    if (!made)
        return Error::from_errno("making an eventfd", errno);
    if (saved.count != 0 && write(made.get(), &saved.count, sizeof(saved.count)) != 8)
        return Error::from_errno("setting an eventfd's counter", errno);
    return opening.keep(std::move(made), saved.open_file);
}

Result<void> open(Opening &opening)
{
    for (const auto &[id, saved] : opening.of<image::Eventfd>()) {
        if (opening.is_opened(id))
            continue;
        if (Result<void> done = open_one(opening, saved); !done)
            return done;
    }
    return {};
}

Result<void> compare(const Restored &restored)
{
    const auto &saved = restored.saved.of<image::Eventfd>();
    const auto one = saved.find(restored.open_file.id);
    return one == saved.end()
               ? Result<void>()
               : same_line(restored.what, restored.info, "eventfd-count", 16, one->second.count);
}

} // namespace

const Kind eventfd_kind = {
    .link = "anon_inode:[eventfd]",
    .has_own_file = true,
    .save = save,
    .open = open,
    .compare = compare,
};

} // namespace cryo::resources
