// SPDX-License-Identifier: Apache-2.0
//
// What an image says about signals and timers. Include records.hpp, which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

// One per signal whose disposition is not the default.
struct Sigaction {
    static constexpr RecordType type = RecordType::sigaction;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t signal = 0;
    uint64_t handler = 0; // address, or 0 default, 1 ignore
    uint64_t flags = 0;
    uint64_t restorer = 0;
    uint64_t mask = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("signal", s.signal);
        v("handler", s.handler, Show::hex);
        v("flags", s.flags, Show::hex);
        v("restorer", s.restorer, Show::hex);
        v("mask", s.mask, Show::hex);
    }
};

// A queued signal with its siginfo, in order of delivery. Which fields count follows from signal
// and code.
struct PendingSignal {
    static constexpr RecordType type = RecordType::pending_signal;
    static constexpr uint16_t version = 3;
    static constexpr bool required = true;

    uint32_t tid = 0; // 0: for the process
    uint32_t signal = 0;
    int32_t code = 0;
    int32_t error = 0;
    uint32_t pid = 0;
    uint32_t uid = 0;
    uint64_t value = 0;
    uint64_t address = 0;
    int32_t status = 0;
    int64_t user_time = 0;
    int64_t system_time = 0;
    int32_t timer = 0;
    int32_t overrun = 0;
    int64_t band = 0;
    int32_t fd = 0;
    uint64_t call_address = 0;
    int32_t syscall = 0;
    uint32_t arch = 0;
    // The words of the siginfo after the code, as the sender set them, meaningful or not.
    bool whole = false; // the words are present, and count instead of the fields from pid on
    uint64_t word0 = 0;
    uint64_t word1 = 0;
    uint64_t word2 = 0;
    uint64_t word3 = 0;
    uint32_t padding = 0; // version 3; in front of the words, where no member is

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("tid", s.tid);
        v("signal", s.signal);
        v("code", s.code);
        v("error", s.error);
        v("pid", s.pid);
        v("uid", s.uid);
        v("value", s.value, Show::hex);
        v("address", s.address, Show::hex);
        v("status", s.status);
        v("user_time", s.user_time);
        v("system_time", s.system_time);
        v("timer", s.timer);
        v("overrun", s.overrun);
        v("band", s.band);
        v("fd", s.fd);
        v("call_address", s.call_address, Show::hex);
        v("syscall", s.syscall);
        v("arch", s.arch, Show::hex);
        v("whole", s.whole);
        v("word0", s.word0, Show::hex);
        v("word1", s.word1, Show::hex);
        v("word2", s.word2, Show::hex);
        v("word3", s.word3, Show::hex);
        v("padding", s.padding, Show::hex);
    }
};

enum class TimerKind : uint32_t {
    itimer_real = 0,
    itimer_virtual = 1,
    itimer_prof = 2,
    posix = 3,
    timerfd = 4,
};

// A timer with the time that remained at the cut.
struct Timer {
    static constexpr RecordType type = RecordType::timer;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    TimerKind kind = TimerKind{};
    int32_t id = 0; // of timer_create, or the OPEN_FILE of a timerfd
    uint32_t clock = 0;
    bool absolute = false; // was set to a point in time
    bool cancel_on_set = false;
    int64_t remaining = 0; // nanoseconds; 0: disarmed
    int64_t interval = 0;
    uint64_t expirations = 0; // not yet read or delivered
    uint32_t notify = 0;      // SIGEV_…
    uint32_t signal = 0;
    uint64_t value = 0;
    uint32_t notify_tid = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("kind", s.kind);
        v("id", s.id);
        v("clock", s.clock);
        v("absolute", s.absolute);
        v("cancel_on_set", s.cancel_on_set);
        v("remaining", s.remaining);
        v("interval", s.interval);
        v("expirations", s.expirations);
        v("notify", s.notify);
        v("signal", s.signal);
        v("value", s.value, Show::hex);
        v("notify_tid", s.notify_tid);
    }
};

} // namespace cryo::image
