// SPDX-License-Identifier: Apache-2.0
// eventfd, timerfd, signalfd and epoll: from /proc/PID/fdinfo, completed through the descriptors
// themselves.
#include "capture/files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

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

int64_t nanoseconds(const timespec &t)
{
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// "it_value: (1, 500000)": seconds and nanoseconds.
int64_t time_in(std::string_view text)
{
    const auto number = [&text] {
        text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
        return static_cast<int64_t>(take_number(text));
    };
    const int64_t seconds = number();
    return seconds * 1'000'000'000 + number();
}

} // namespace

Result<void> Files::read_eventfd(const Seen &seen)
{
    image::Eventfd record;
    record.open_file = seen.open_file;
    std::string_view count = field(seen.info, "eventfd-count");
    record.count = take_number(count, 16);
    const std::string_view semaphore = field(seen.info, "eventfd-semaphore");
    if (semaphore.empty()) {
        Result<bool> answer = is_semaphore(seen.shared.get(), record.count);
        if (!answer)
            return answer.error();
        record.semaphore = *answer;
    } else {
        record.semaphore = semaphore == "1";
    }
    eventfds_.push_back(record);
    return {};
}

// timerfd_gettime updates an expired interval timer, which reading fdinfo does not; after it, the
// count and the remaining time in fdinfo match, with two exceptions. A timer about to expire may
// expire during the read: the remaining time is then older than the count. And a timer that is due,
// but whose expiry the kernel has not handled yet, has neither remaining time nor count, just like
// an unset timer. In both cases it is asked again.
Result<image::Timer> Files::look_at_timer(const Seen &seen) const
{
    constexpr int64_t about_to = 50'000, long_interval = 1'000'000;
    constexpr int turns = 100;
    constexpr timespec moment = {0, 20'000};
    image::Timer timer;
    Result<std::string> info = std::string();
    bool was_set = false;
    for (int turn = 0; turn < turns; turn++) {
        itimerspec now = {};
        if (timerfd_gettime(seen.shared.get(), &now) != 0)
            return Error::from_errno(fmt::format("asking the timer of descriptor {}", seen.fd),
                                     errno);
        info = proc_of(seen).read("fdinfo/" + std::to_string(seen.fd));
        if (!info)
            return info.error();
        was_set |= nanoseconds(now.it_value) != 0;
        std::string_view ticks = field(*info, "ticks");
        timer.expirations = take_number(ticks);
        timer.interval = nanoseconds(now.it_interval);
        timer.remaining = time_in(field(*info, "it_value"));
        const bool expires = was_set && timer.remaining == 0 && timer.expirations == 0;
        if (expires)
            nanosleep(&moment, nullptr);
        else if (timer.remaining == 0 || timer.remaining > about_to ||
                 timer.interval < long_interval)
            break;
    }
    timer.kind = image::TimerKind::timerfd;
    timer.id = static_cast<int32_t>(seen.open_file);
    std::string_view clock = field(*info, "clockid");
    std::string_view flags = field(*info, "settime flags");
    timer.clock = static_cast<uint32_t>(take_number(clock));
    const uint64_t how = take_number(flags, 8);
    timer.absolute = (how & TFD_TIMER_ABSTIME) != 0;
    timer.cancel_on_set = (how & TFD_TIMER_CANCEL_ON_SET) != 0;
    if (timer.interval == 0 && timer.expirations != 0)
        timer.remaining = 0; // it has expired between the two calls
    if (timer.interval != 0 && timer.remaining == 0 && timer.expirations != 0)
        timer.remaining = timer.interval; // expired since the call; only a set timer expires
    if (was_set && timer.remaining == 0 && timer.expirations == 0)
        timer.remaining = 1; // it is expiring
    return timer;
}

Result<void> Files::read_timerfd(const Seen &seen)
{
    Result<image::Timer> timer = look_at_timer(seen);
    if (!timer)
        return timer.error();
    if (timer->remaining == 0 && timer->expirations == 0)
        unset_timers_.emplace_back(timers_.size(), &seen);
    timers_.push_back(*timer);
    return {};
}

// Timers that seemed unset: after a pause long enough for the kernel to handle an expiry, it is
// clear whether one was just expiring.
Result<void> Files::settle_timers()
{
    constexpr timespec handling = {0, 200'000};
    if (!unset_timers_.empty())
        nanosleep(&handling, nullptr);
    for (const auto &[number, seen] : unset_timers_) {
        Result<image::Timer> timer = look_at_timer(*seen);
        if (!timer)
            return timer.error();
        timers_[number] = *timer;
    }
    unset_timers_.clear();
    return {};
}

Result<void> Files::read_signalfd(const Seen &seen)
{
    image::Signalfd record;
    record.open_file = seen.open_file;
    std::string_view mask = field(seen.info, "sigmask");
    record.mask = take_number(mask, 16);
    signalfds_.push_back(record);
    return {};
}

// "tfd: 5 events: 19 data: feedface  pos:0 ino:… sdev:…": tfd is the number at registration; the
// open file may have another descriptor by now, or none.
Result<void> Files::read_epoll(const Seen &seen)
{
    std::map<int, uint32_t> offsets; // distinguishes open files with the same number
    std::string_view rest = seen.info;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        if (take_word(line) != "tfd:")
            continue;
        image::EpollItem item;
        item.epoll = seen.open_file;
        item.fd = static_cast<uint32_t>(take_number(line));
        take_word(line); // "events:"
        item.events = static_cast<uint32_t>(take_number(line, 16));
        take_word(line); // "data:"
        item.data = take_number(line, 16);
        kcmp_epoll_slot slot = {static_cast<uint32_t>(seen.fd), item.fd,
                                offsets[static_cast<int>(item.fd)]++};
        const auto is = [&](const Seen &other) {
            return syscall(SYS_kcmp, proc_of(other).pid(), proc_of(seen).pid(), KCMP_EPOLL_TFD,
                           other.fd, &slot) == 0;
        };
        const auto likely = descriptor_.find({seen.holder, static_cast<int>(item.fd)});
        const Seen *target = nullptr;
        if (likely != descriptor_.end() && is(seen_[likely->second]))
            target = &seen_[likely->second];
        for (size_t i = 0; i < seen_.size() && target == nullptr; i++) {
            if (is(seen_[i]))
                target = &seen_[i];
        }
        if (target == nullptr) {
            refuse(seen,
                   fmt::format("an epoll set that watches what was descriptor {} and is closed now",
                               item.fd),
                   "remove it from the set before it is closed");
            continue;
        }
        item.open_file = target->open_file;
        if (item.open_file != 0) // otherwise it is refused itself
            epoll_items_.push_back(item);
    }
    return {};
}

} // namespace cryo::capture
