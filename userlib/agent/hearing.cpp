// SPDX-License-Identifier: Apache-2.0
// The C library blocks all signals for the time of a fork, an exec or a new thread, which may last
// where processes are large and processors few. There it runs in the kernel, or waits for its turn.
#include "agent/hearing.hpp"

#include "agent/agent.hpp"
#include "sys/clock.hpp"
#include "sys/raw.hpp"

namespace cryo::agent {

namespace {

constexpr long deaf_limit_ns = 2'000'000'000;
constexpr uint64_t ticks_run = 5; // of USER_HZ, which is 100

// What follows the key at the beginning of a line; null: no such line.
const char *value_of(const char *text, long size, const char *key)
{
    for (long i = 0; i < size; i++) {
        if (i != 0 && text[i - 1] != '\n')
            continue;
        long same = 0;
        while (key[same] != 0 && i + same < size && text[i + same] == key[same])
            same++;
        if (key[same] == 0)
            return text + i + same;
    }
    return nullptr;
}

// The time in user mode, the 14th word of stat; the name before it may contain anything.
uint64_t time_in_program(int tid)
{
    static char text[512];
    const long size = read_task(tid, "stat", text, sizeof(text));
    const char *at = nullptr;
    for (long i = 0; i < size; i++) {
        if (text[i] == ')')
            at = text + i + 1;
    }
    constexpr int blanks_before = 12; // between the name and the 14th word
    for (int blanks = 0; at != nullptr && *at != 0 && blanks < blanks_before; at++)
        blanks += *at == ' ' ? 1 : 0;
    uint64_t ticks = 0;
    for (; at != nullptr && *at >= '0' && *at <= '9'; at++)
        ticks = ticks * 10 + static_cast<uint64_t>(*at - '0');
    return ticks;
}

} // namespace

ThreadStatus status_of(int tid)
{
    static char text[4096];
    const long size = read_task(tid, "status", text, sizeof(text));
    ThreadStatus status;
    if (const char *letter = value_of(text, size, "State:\t"); letter != nullptr)
        status.state = *letter;
    const char *mask = value_of(text, size, "SigBlk:\t");
    for (int digit = 0; mask != nullptr && digit < 16; digit++) {
        const char c = mask[digit];
        if (c == 0)
            break;
        status.blocked =
            status.blocked << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return status;
}

bool is_deaf(Suspect &suspect, int tid)
{
    const ThreadStatus status = status_of(tid);
    const bool blocks = (status.blocked >> (state.signal - 1) & 1) != 0 && state.deaf.load() == 0;
    if (!blocks || (status.state != 'S' && status.state != 'R')) {
        if (suspect.tid == tid)
            suspect = {};
        return false;
    }
    const long now = sys::monotonic_ns();
    if (suspect.tid != tid) {
        suspect = {tid, now, time_in_program(tid), false};
        return false;
    }
    suspect.slept = suspect.slept || status.state == 'S';
    return now - suspect.since >= deaf_limit_ns &&
           (suspect.slept || time_in_program(tid) - suspect.ran >= ticks_run);
}

} // namespace cryo::agent
