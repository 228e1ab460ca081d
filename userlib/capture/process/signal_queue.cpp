// SPDX-License-Identifier: Apache-2.0
#include "capture/process/signal_queue.hpp"

#include "capture/process/held_thread.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/ptrace.h>

namespace cryo::capture {

Result<std::vector<siginfo_t>> peek_signals(pid_t tid, Queue queue)
{
    Result<HeldThread> held = HeldThread::hold(tid, "its pending signals may not be read");
    if (!held)
        return held.error();
    std::vector<siginfo_t> all;
    for (;;) {
        siginfo_t part[64];
        __ptrace_peeksiginfo_args args = {};
        args.off = all.size();
        args.flags = queue == Queue::process ? PTRACE_PEEKSIGINFO_SHARED : 0;
        args.nr = std::size(part);
        const long n = ptrace(PTRACE_PEEKSIGINFO, tid, &args, part);
        if (n < 0)
            return Error::from_errno(fmt::format("thread {}: reading its pending signals", tid),
                                     errno);
        if (n == 0)
            return all;
        all.insert(all.end(), part, part + n);
    }
}

namespace {

// A process may queue itself arbitrary data, with members that do not match the code, so the raw
// words are saved. Only a timer's signal contains data of the kernel's own.
void take_words(const siginfo_t &info, image::PendingSignal &record)
{
    constexpr size_t behind_code = 16;
    uint64_t words[4];
    static_assert(behind_code + sizeof(words) <= sizeof(info));
    memcpy(words, reinterpret_cast<const char *>(&info) + behind_code, sizeof(words));
    record.whole = info.si_code != SI_TIMER;
    if (!record.whole)
        return;
    record.word0 = words[0];
    record.word1 = words[1];
    record.word2 = words[2];
    record.word3 = words[3];
    memcpy(&record.padding,
           reinterpret_cast<const char *>(&info) + behind_code - sizeof(record.padding),
           sizeof(record.padding));
}

} // namespace

image::PendingSignal record_of(const siginfo_t &info, uint32_t tid)
{
    image::PendingSignal record;
    record.tid = tid;
    record.signal = static_cast<uint32_t>(info.si_signo);
    record.code = info.si_code;
    record.error = info.si_errno;
    take_words(info, record);
    const auto sender = [&] {
        record.pid = static_cast<uint32_t>(info.si_pid);
        record.uid = info.si_uid;
    };
    const auto from_descriptor = [&] {
        record.band = info.si_band;
        record.fd = info.si_fd;
    };
    // The code decides which members count; for signals from the kernel itself, the signal does.
    const bool kernel = info.si_code > 0 && info.si_code < SI_KERNEL;
    if (info.si_code == SI_TIMER) {
        record.timer = info.si_timerid;
        record.overrun = info.si_overrun;
        record.value = reinterpret_cast<uint64_t>(info.si_ptr);
    } else if (info.si_code == SI_SIGIO) {
        from_descriptor();
    } else if (info.si_code < 0) {
        sender();
        record.value = reinterpret_cast<uint64_t>(info.si_ptr);
    } else if (!kernel) {
        sender();
    } else if (info.si_signo == SIGCHLD) {
        sender();
        record.status = info.si_status;
        record.user_time = info.si_utime;
        record.system_time = info.si_stime;
    } else if (info.si_signo == SIGILL || info.si_signo == SIGFPE || info.si_signo == SIGSEGV ||
               info.si_signo == SIGBUS || info.si_signo == SIGTRAP) {
        record.address = reinterpret_cast<uint64_t>(info.si_addr);
    } else if (info.si_signo == SIGSYS) {
        record.call_address = reinterpret_cast<uint64_t>(info.si_call_addr);
        record.syscall = info.si_syscall;
        record.arch = info.si_arch;
    } else {
        from_descriptor(); // SIGIO, or the signal chosen by F_SETSIG
    }
    return record;
}

} // namespace cryo::capture
