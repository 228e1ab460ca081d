// SPDX-License-Identifier: Apache-2.0
// eventfd, timerfd, signalfd, inotify and epoll.
#include "restore/open_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <linux/types.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace cryo::restore {

using image::FileKind;

namespace {

constexpr unsigned long set_ticks = _IOW('T', 0, uint64_t); // TFD_IOC_SET_TICKS

Result<void> keep(Planning &p, int fd, uint32_t open_file, const char *what)
{
    Fd made(fd);
    if (!made)
        return Error::from_errno(what, errno);
    Result<int> kept = keep_open(p, std::move(made), open_file);
    if (!kept)
        return kept.error();
    return {};
}

int nonblock(const image::OpenFile &open_file)
{
    return static_cast<int>(open_file.flags & O_NONBLOCK);
}

bool is_to_make(const Planning &p, const image::Timer &timer)
{
    return timer.kind == image::TimerKind::timerfd &&
           p.redirected.count(static_cast<uint32_t>(timer.id)) == 0;
}

Result<void> open_eventfd(Planning &p, const image::Eventfd &saved)
{
    const image::OpenFile &open_file = p.saved.open_files.at(saved.open_file);
    Fd made(eventfd(0, EFD_CLOEXEC | nonblock(open_file) | (saved.semaphore ? EFD_SEMAPHORE : 0)));
    if (!made)
        return Error::from_errno("making an eventfd", errno);
    if (saved.count != 0 && write(made.get(), &saved.count, sizeof(saved.count)) != 8)
        return Error::from_errno("setting an eventfd's counter", errno);
    return keep(p, made.release(), open_file.id, "making an eventfd");
}

// Watch numbers go up by one each time: those in between are used up. The program's own
// masks are set at the very end, by the process, so that it sees no event of the restart.
Result<void> open_inotify(Planning &p, const image::OpenFile &open_file)
{
    Fd made(inotify_init1(IN_CLOEXEC | nonblock(open_file)));
    if (!made && errno == EMFILE)
        return Error(EMFILE, "making an inotify descriptor: the user has as many as may be; raise "
                             "fs.inotify.max_user_instances, or end what else uses them");
    if (!made)
        return Error::from_errno("making an inotify descriptor", errno);
    std::vector<image::InotifyWatch> watches;
    for (const image::InotifyWatch &watch : p.saved.watches) {
        if (watch.open_file == open_file.id)
            watches.push_back(watch);
    }
    std::sort(watches.begin(), watches.end(),
              [](const auto &a, const auto &b) { return a.watch < b.watch; });
    for (const image::InotifyWatch &watch : watches) {
        const std::string path(watch.path);
        for (;;) {
            const int got = inotify_add_watch(made.get(), path.c_str(), IN_MOVE_SELF);
            if (got < 0)
                return Error(errno, fmt::format("watching {}: {}", path, strerror(errno)));
            if (got == watch.watch)
                break;
            if (got > watch.watch || inotify_rm_watch(made.get(), got) != 0)
                return Error(EEXIST,
                             fmt::format("watching {}: its number {} is taken", path, watch.watch));
        }
    }
    int waiting = 0; // removed watches are reported
    while (ioctl(made.get(), FIONREAD, &waiting) == 0 && waiting > 0) {
        char events[16384];
        if (read(made.get(), events, sizeof(events)) <= 0)
            return Error::from_errno("emptying an inotify descriptor", errno);
    }
    return keep(p, made.release(), open_file.id, "making an inotify descriptor");
}

} // namespace

Result<void> open_events(Planning &p)
{
    for (const image::Eventfd &saved : p.saved.eventfds) {
        if (is_opened(p, saved.open_file))
            continue;
        if (Result<void> done = open_eventfd(p, saved); !done)
            return done;
    }
    for (const image::Signalfd &saved : p.saved.signalfds) {
        if (is_opened(p, saved.open_file))
            continue;
        const image::OpenFile &open_file = p.saved.open_files.at(saved.open_file);
        const long fd = syscall(SYS_signalfd4, -1, &saved.mask, sizeof(saved.mask),
                                O_CLOEXEC | nonblock(open_file));
        if (Result<void> done = keep(p, static_cast<int>(fd), open_file.id, "making a signalfd");
            !done)
            return done;
    }
    for (const image::Timer &timer : p.saved.timers) {
        if (!is_to_make(p, timer))
            continue;
        const image::OpenFile &open_file = p.saved.open_files.at(static_cast<uint32_t>(timer.id));
        const int fd =
            timerfd_create(static_cast<int>(timer.clock), TFD_CLOEXEC | nonblock(open_file));
        if (Result<void> done = keep(p, fd, open_file.id, "making a timerfd"); !done)
            return done;
    }
    for (const auto &[id, open_file] : p.saved.open_files) {
        const auto file = p.saved.files.find(open_file.file);
        if (file == p.saved.files.end() || is_opened(p, id))
            continue;
        Result<void> done;
        if (file->second.kind == FileKind::inotify)
            done = open_inotify(p, open_file);
        else if (file->second.kind == FileKind::epoll)
            done = keep(p, epoll_create1(EPOLL_CLOEXEC), id, "making an epoll set");
        if (!done)
            return done;
    }
    return {};
}

// epoll remembers the descriptor number of a registration, and the open file behind it.
// So each file gets that number for a moment, before the program's table is laid out.
Result<void> plan_epoll(Planning &p)
{
    Program &program = p.plan.program;
    for (const image::EpollItem &item : p.saved.epoll_items) {
        if (p.redirected.count(item.open_file) != 0 || p.redirected.count(item.epoll) != 0)
            continue;
        if (!is_opened(p, item.epoll) || !is_opened(p, item.open_file))
            return Error(EINVAL, "an epoll set refers to no open file");
        const std::string what = fmt::format("registering descriptor {} in an epoll set", item.fd);
        epoll_event event = {};
        event.events = item.events;
        event.data.u64 = item.data;
        program.call(what, SYS_dup3, {opened(p, item.open_file), value(item.fd), value(O_CLOEXEC)});
        program.call(what, SYS_epoll_ctl,
                     {opened(p, item.epoll), value(EPOLL_CTL_ADD), value(item.fd),
                      program.data(&event, sizeof(event))});
        program.call(what, SYS_close, {value(item.fd)});
    }
    return {};
}

// At the very end, because the remaining time starts now. A timer
// set to a time of the wall clock still expires at that time.
void plan_timer_descriptors(Planning &p)
{
    Program &program = p.plan.program;
    const auto split = [](int64_t ns) { return timespec{ns / 1'000'000'000, ns % 1'000'000'000}; };
    for (const image::Timer &timer : p.saved.timers) {
        if (!is_to_make(p, timer))
            continue;
        const int fd = descriptor_of(p, static_cast<uint32_t>(timer.id));
        const bool at_a_time =
            timer.absolute && timer.remaining != 0 &&
            (timer.clock == CLOCK_REALTIME || timer.clock == CLOCK_REALTIME_ALARM);
        itimerspec setting = {};
        setting.it_interval = split(timer.interval);
        setting.it_value =
            split(at_a_time ? p.saved.process.cut_realtime + timer.remaining : timer.remaining);
        int flags = at_a_time ? TFD_TIMER_ABSTIME : 0;
        if (at_a_time && timer.cancel_on_set)
            flags |= TFD_TIMER_CANCEL_ON_SET;
        if (timer.remaining != 0)
            program.call(
                fmt::format("setting the timer of descriptor {}", fd), SYS_timerfd_settime,
                {value(fd), value(flags), program.data(&setting, sizeof(setting)), value(0)});
        if (timer.expirations != 0)
            program.call(fmt::format("setting what the timer of descriptor {} has counted", fd),
                         SYS_ioctl,
                         {value(fd), value(set_ticks),
                          program.data(&timer.expirations, sizeof(timer.expirations))});
    }
}

void plan_watches(Planning &p)
{
    Program &program = p.plan.program;
    for (const image::InotifyWatch &watch : p.saved.watches) {
        if (p.redirected.count(watch.open_file) != 0)
            continue;
        const int fd = descriptor_of(p, watch.open_file);
        program.call_exact(fmt::format("watching {}", watch.path), SYS_inotify_add_watch,
                           static_cast<uint64_t>(watch.watch),
                           {value(fd), program.text(watch.path), value(watch.mask)});
    }
}

} // namespace cryo::restore
