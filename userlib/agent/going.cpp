// SPDX-License-Identifier: Apache-2.0
// Continuing after a checkpoint: the leader goes last. A thread that was asleep in a system call
// enters it again. A signal that arrives before then is handled without interrupting the call,
// which then sleeps on; a program that relies on the interruption would wait for ever.
#include "agent/agent.hpp"
#include "agent/inherited.hpp"
#include "agent/kept_numbers.hpp"
#include "sys/clock.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/futex.h>

namespace cryo::agent {

namespace {

constexpr long limit_ns = 10'000'000'000; // best effort: given up after that
constexpr long pause_ns = 200'000;

void wait_for_news(uint32_t seen)
{
    const timespec limit = {0, pause_ns};
    sys::call(SYS_futex, &state.gone, FUTEX_WAIT_PRIVATE, seen, &limit, 0, 0);
}

// The state letter of "412 (name) S …"; the name may contain anything. 0: the thread is gone.
char state_of(int tid)
{
    static char text[512];
    const long size = read_task(tid, "stat", text, sizeof(text));
    char found = 0;
    for (long i = 0; i + 2 < size; i++) {
        if (text[i] == ')')
            found = text[i + 2];
    }
    return found;
}

// How long the thread has run, in nanoseconds; the kernel updates this when the thread is
// descheduled and with each tick.
uint64_t time_run(int tid)
{
    static char text[128];
    uint64_t n = 0;
    const long size = read_task(tid, "schedstat", text, sizeof(text));
    for (long i = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++)
        n = n * 10 + static_cast<uint64_t>(text[i] - '0');
    return n;
}

// True if it sleeps, or has run for longer than the return from the handler can take.
bool has_entered(int tid, uint64_t &run_before)
{
    constexpr uint64_t long_enough = 100'000;
    if (state_of(tid) != 'R')
        return true;
    const uint64_t run = time_run(tid);
    if (run == 0)
        return true; // this kernel does not measure it
    if (run_before == 0)
        run_before = run;
    return run - run_before > long_enough;
}

} // namespace

long read_task(int tid, const char *name, char *to, size_t size)
{
    char path[64] = "/proc/self/task/";
    char digits[16];
    int count = 0;
    for (int n = tid; n != 0; n /= 10)
        digits[count++] = static_cast<char>('0' + n % 10);
    char *end = path + 16;
    while (count > 0)
        *end++ = digits[--count];
    *end++ = '/';
    while (*name != 0)
        *end++ = *name++;
    *end = 0;
    const long file = open_briefly(path);
    if (sys::failed(file))
        return file;
    count_read();
    // From no position: nothing is taken from a pipe that the program has put in its place.
    const long bytes = sys::call(SYS_pread64, file, to, size - 1, 0);
    const long got = is_kept(file) ? bytes : -EBADF;
    give_up(file);
    to[sys::failed(got) ? 0 : got] = 0;
    return got;
}

// Asks for the thread's id again: it may have been restored with another one.
void tell_gone(bool enters_call)
{
    const auto tid = static_cast<int>(sys::call(SYS_gettid));
    const size_t threads = __atomic_load_n(&state.threads, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < threads; i++) {
        if (state.slots[i].facts.tid == tid)
            state.slots[i].back.store(enters_call ? 2 : 1, std::memory_order_release);
    }
    state.gone.fetch_add(1, std::memory_order_release);
    sys::call(SYS_futex, &state.gone, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}

void await_gone()
{
    const long start = sys::monotonic_ns();
    const long pid = sys::call(SYS_getpid);
    for (size_t i = 0; i < state.threads; i++) {
        Slot &slot = state.slots[i];
        if (slot.arrived.load(std::memory_order_acquire) != 1)
            continue; // it was not stopped, or has ended
        for (uint64_t run_before = 0;;) {
            const uint32_t seen = state.gone.load(std::memory_order_acquire);
            const uint32_t back = slot.back.load(std::memory_order_acquire);
            const int tid = slot.facts.tid;
            if (back == 1 || sys::call(SYS_tgkill, pid, tid, 0) != 0 ||
                (back == 2 && has_entered(tid, run_before)))
                break;
            // The next checkpoint may have begun.
            if (sys::monotonic_ns() - start > limit_ns ||
                state.active.load(std::memory_order_acquire) != 0)
                return;
            wait_for_news(seen);
        }
    }
}

} // namespace cryo::agent
