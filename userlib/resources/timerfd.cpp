// SPDX-License-Identifier: Apache-2.0
// timerfd_create(2): a timer, what is left of its time, and how often it has expired.
#include "resources/every_kind.hpp"

#include "look/proc.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/types.h>
#include <map>
#include <set>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

namespace cryo::resources {

using restore::value;

namespace {

constexpr unsigned long set_ticks = _IOW('T', 0, uint64_t); // TFD_IOC_SET_TICKS

int64_t nanoseconds(const timespec &t)
{
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// "it_value: (1, 500000)": seconds and nanoseconds.
int64_t time_in(std::string_view text)
{
    const auto number = [&text] {
        text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
        return static_cast<int64_t>(capture::take_number(text));
    };
    const int64_t seconds = number();
    return seconds * 1'000'000'000 + number();
}

// timerfd_gettime updates an expired interval timer, which reading fdinfo does not; after it, the
// count and the remaining time in fdinfo match, with two exceptions. A timer about to expire may
// expire during the read: the remaining time is then older than the count. And a timer that is due,
// but whose expiry the kernel has not handled yet, has neither remaining time nor count, just like
// an unset timer. In both cases it is asked again.
Result<image::Timer> look_at(const Saving &saving, const Seen &seen)
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
            return Error::from_errno(fmt::format("asking the timer of {}", descriptor_text(seen)),
                                     errno);
        info = saving.info_now(seen);
        if (!info)
            return info.error();
        was_set |= nanoseconds(now.it_value) != 0;
        std::string_view ticks = capture::field(*info, "ticks");
        timer.expirations = capture::take_number(ticks);
        timer.interval = nanoseconds(now.it_interval);
        timer.remaining = time_in(capture::field(*info, "it_value"));
        const bool expires = was_set && timer.remaining == 0 && timer.expirations == 0;
        if (expires)
            nanosleep(&moment, nullptr);
        else if (timer.remaining == 0 || timer.remaining > about_to ||
                 timer.interval < long_interval)
            break;
    }
    timer.kind = image::TimerKind::timerfd;
    timer.id = static_cast<int32_t>(seen.open_file);
    std::string_view clock = capture::field(*info, "clockid");
    std::string_view flags = capture::field(*info, "settime flags");
    timer.clock = static_cast<uint32_t>(capture::take_number(clock));
    const uint64_t how = capture::take_number(flags, 8);
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

Result<void> save(Saving &saving, const Seen &seen)
{
    Result<image::Timer> timer = look_at(saving, seen);
    if (!timer)
        return timer.error();
    saving.records().add(*timer);
    return {};
}

bool seems_unset(const image::Timer &timer)
{
    return timer.kind == image::TimerKind::timerfd && timer.remaining == 0 &&
           timer.expirations == 0;
}

// After a pause long enough for the kernel to handle an expiry, it is clear whether a timer that
// seemed unset was just expiring.
Result<void> settle(Saving &saving)
{
    constexpr timespec handling = {0, 200'000};
    std::vector<image::Timer> &timers = saving.records().of<image::Timer>();
    if (std::ranges::none_of(timers, seems_unset))
        return {};
    std::map<uint32_t, const Seen *> seen;
    for (const Seen &one : saving.seen())
        seen[one.open_file] = &one;
    nanosleep(&handling, nullptr);
    for (image::Timer &timer : timers) {
        if (!seems_unset(timer))
            continue;
        Result<image::Timer> again = look_at(saving, *seen.at(static_cast<uint32_t>(timer.id)));
        if (!again)
            return again.error();
        timer = *again;
    }
    return {};
}

bool is_to_make(const Opening &opening, const image::Timer &timer)
{
    return timer.kind == image::TimerKind::timerfd &&
           !opening.is_redirected(static_cast<uint32_t>(timer.id));
}

Result<void> open(Opening &opening)
{
    for (const image::Timer &timer : opening.timers()) {
        if (!is_to_make(opening, timer))
            continue;
        const auto id = static_cast<uint32_t>(timer.id);
        const Result<const image::OpenFile *> open_file = opening.named(id, "a timerfd");
        if (!open_file)
            return open_file.error();
        Fd made(timerfd_create(static_cast<int>(timer.clock),
                               TFD_CLOEXEC | static_cast<int>((*open_file)->flags & O_NONBLOCK)));
        if (!made)
            return Error::from_errno("making a timerfd", errno);
        if (Result<void> kept = opening.keep(std::move(made), id); !kept)
            return kept;
    }
    return {};
}

// The one that no process has, as it waits in a message: cr_restart's descriptor of it.
std::set<int> spared(const Opening &opening)
{
    std::set<int> all;
    for (const image::Timer &timer : opening.timers()) {
        const auto id = static_cast<uint32_t>(timer.id);
        if (is_to_make(opening, timer) && opening.descriptor(id) < 0 && opening.made(id) >= 0)
            all.insert(opening.made(id));
    }
    return all;
}

// At the very end, because the remaining time starts now. A timer set to a time of the wall clock
// still expires at that time.
void finish(Opening &opening)
{
    restore::Program &program = opening.program();
    const auto split = [](int64_t ns) { return timespec{ns / 1'000'000'000, ns % 1'000'000'000}; };
    for (const image::Timer &timer : opening.timers()) {
        if (!is_to_make(opening, timer))
            continue;
        const auto id = static_cast<uint32_t>(timer.id);
        const int number = opening.descriptor(id);
        const bool in_message = number < 0;
        const int fd = in_message ? opening.made(id) : number;
        const std::string which =
            in_message ? "a timer in a message" : fmt::format("the timer of descriptor {}", fd);
        const bool at_a_time =
            timer.absolute && timer.remaining != 0 &&
            (timer.clock == CLOCK_REALTIME || timer.clock == CLOCK_REALTIME_ALARM);
        itimerspec setting = {};
        setting.it_interval = split(timer.interval);
        setting.it_value =
            split(at_a_time ? opening.cut_realtime() + timer.remaining : timer.remaining);
        int flags = at_a_time ? TFD_TIMER_ABSTIME : 0;
        if (at_a_time && timer.cancel_on_set)
            flags |= TFD_TIMER_CANCEL_ON_SET;
        if (timer.remaining != 0)
            program.call(
                "setting " + which, SYS_timerfd_settime,
                {value(fd), value(flags), program.data(&setting, sizeof(setting)), value(0)});
        if (timer.expirations != 0)
            program.call("setting what " + which + " has counted", SYS_ioctl,
                         {value(fd), value(set_ticks),
                          program.data(&timer.expirations, sizeof(timer.expirations))});
        if (in_message)
            program.call("closing", SYS_close, {value(fd)});
    }
}

} // namespace

const Kind timerfd_kind = {
    .link = "anon_inode:[timerfd]",
    .has_own_file = true,
    .save = save,
    .settle = settle,
    .open = open,
    .spared = spared,
    .finish = finish,
};

} // namespace cryo::resources
