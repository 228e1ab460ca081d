// SPDX-License-Identifier: Apache-2.0
// Finds the changes that the kernel will make to System V semaphores when this process ends
// (SEM_UNDO). The kernel does not report it, and others affect it (SETVAL clears it), so it cannot
// be tracked. But the kernel keeps the amount within 16 bits, and fails an operation that would
// exceed them with ERANGE. Operations of one semop(2) happen together or not at all, so trial
// operations in front of one that can never succeed show how far the amount can be moved. Nothing
// is changed, and no waiter is woken.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <linux/kcmp.h>
#include <sys/sem.h>
#include <sys/socket.h>

namespace cryo::agent {

namespace {

constexpr int highest = 32767; // of a value (SEMVMX), and of an amount, whose minimum is −32768
constexpr int impossible = -32768;
constexpr int none = highest + 1; // an amount of 0 can be lowered by this

// Static: the handler's stack may be small. Only the leader uses it.
int16_t amounts[undo_at_once];

struct Semaphore {
    int id;
    uint16_t number;
    int value;
};

// 1: the amount minus `by` (0 to 65535) is at least −32768. 0: it is less. < 0: −errno.
long can_be_lowered(const Semaphore &s, int by)
{
    constexpr int most = 9;
    sembuf steps[most];
    unsigned count = 0;
    const auto add = [&](int change, int flags) {
        if (change != 0)
            steps[count++] = {s.number, static_cast<short>(change),
                              static_cast<short>(flags | IPC_NOWAIT)};
    };
    add(-s.value, 0); // start from zero, so that the value does not matter
    for (int left = by; left > 0;) {
        const int part = left < highest ? left : highest;
        add(part, SEM_UNDO);
        add(-part, 0);
        left -= part;
    }
    steps[count++] = {s.number, impossible, IPC_NOWAIT};
    const long result = sys::call(SYS_semop, s.id, steps, count);
    if (result == -EAGAIN)
        return 1;
    if (result == -ERANGE)
        return 0;
    return sys::failed(result) ? result : -EIO;
}

// The value must be known; a process outside the checkpoint may change it meanwhile.
long find_amount(int id, uint16_t number, int16_t &amount)
{
    constexpr int patience = 100;
    for (int turn = 0; turn < patience; turn++) {
        const long value = sys::call(SYS_semctl, id, number, GETVAL, 0);
        if (sys::failed(value))
            return value;
        const Semaphore it = {id, number, static_cast<int>(value)};
        int low = 0;        // can be lowered by this,
        int end = 2 * none; // but not by this
        const auto ask = [&](int by) {
            const long can = can_be_lowered(it, by);
            (can == 1 ? low : end) = by;
            return can;
        };
        // Usually there is nothing to undo.
        long result = ask(none);
        if (result >= 0 && low == none)
            result = ask(none + 1);
        while (result >= 0 && end - low > 1)
            result = ask((low + end) / 2);
        if (result < 0)
            return result;
        amount = static_cast<int16_t>(low - none);
        if (sys::call(SYS_semctl, id, number, GETVAL, 0) == value)
            return 0;
    }
    return -EAGAIN;
}

// A thread made by clone(2) without CLONE_SYSVSEM has its own list, which cannot be tried here.
bool have_all_the_same()
{
    const long self = sys::call(SYS_gettid);
    for (size_t i = 0; i < state.threads; i++) {
        const int other = state.slots[i].facts.tid;
        if (other != self && sys::call(SYS_kcmp, self, other, KCMP_SYSVSEM, 0, 0) != 0)
            return false;
    }
    return true;
}

long find_amounts(const UndoRequest &request)
{
    if (request.count == 0 || request.count > undo_at_once)
        return -EINVAL;
    if (!have_all_the_same())
        return -EXDEV;
    for (uint64_t i = 0; i < request.count; i++) {
        if (const long result =
                find_amount(request.id, static_cast<uint16_t>(request.first + i), amounts[i]);
            result < 0)
            return result;
    }
    return 0;
}

} // namespace

void send_undo(int connection, const UndoRequest &request)
{
    const long result = find_amounts(request);
    const Reply answer = {protocol_magic, protocol_version, Op::undo, result, 0, 0};
    send_packet(connection, &answer, sizeof(answer));
    if (!sys::failed(result))
        send_packet(connection, amounts, request.count * sizeof(amounts[0]));
}

} // namespace cryo::agent
