// SPDX-License-Identifier: Apache-2.0
// System V objects that the process uses. The kernel does not report them: such an object belongs
// to no process, and an id is only a number. So the ids that functions of the C library return or
// take are recorded (interposed_ipc.cpp). A child inherits the list along with the memory that may
// contain the ids.
//
// The list is a lock-free table, consistent at any time: a checkpoint may come at any moment.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>

namespace cryo::agent {

namespace {

constexpr uint32_t places = 4096; // a power of two

// 0: free, ends every search; 1: free again, does not
using Entry = uint64_t;
constexpr Entry given_up = 1;
constexpr Entry undo_bit = Entry(1) << 48;

std::atomic<Entry> table[places];
std::atomic<bool> overflowed;

Entry entry_of(IpcKind kind, int id)
{
    return static_cast<uint32_t>(id) | static_cast<Entry>(kind) << 32;
}

bool is_there(Entry entry)
{
    const auto id = static_cast<int>(entry & 0xffffffff);
    union {
        shmid_ds segment;
        semid_ds semaphores;
        msqid_ds queue;
    } unused;
    long found = 0;
    switch (static_cast<IpcKind>(entry >> 32 & 0xffff)) {
    case IpcKind::segment:
        found = sys::call(SYS_shmctl, id, IPC_STAT, &unused);
        break;
    case IpcKind::semaphores:
        found = sys::call(SYS_semctl, id, 0, IPC_STAT, &unused);
        break;
    case IpcKind::queue:
        found = sys::call(SYS_msgctl, id, IPC_STAT, &unused);
        break;
    }
    return found != -EINVAL && found != -EIDRM;
}

// False: the table is full.
bool put(Entry entry)
{
    const auto first = static_cast<uint32_t>((entry ^ entry >> 27) * 2654435761U >> 16);
    for (;;) {
        std::atomic<Entry> *free = nullptr;
        Entry seen = 0;
        for (uint32_t i = 0; i < places; i++) {
            std::atomic<Entry> &place = table[(first + i) % places];
            const Entry found = place.load(std::memory_order_relaxed);
            if ((found & ~undo_bit) == (entry & ~undo_bit)) {
                if ((entry & ~found) != 0)
                    place.fetch_or(undo_bit);
                return true;
            }
            if (found <= given_up && free == nullptr) {
                free = &place;
                seen = found;
            }
            if (found == 0)
                break;
        }
        if (free == nullptr)
            return false;
        if (free->compare_exchange_strong(seen, entry))
            return true;
    }
}

// Frees the entries of objects that are gone. An id names one object only, so none comes back.
void sweep()
{
    for (std::atomic<Entry> &place : table) {
        Entry found = place.load();
        if (found > given_up && !is_there(found))
            place.compare_exchange_strong(found, given_up);
    }
}

} // namespace

void remember_ipc(IpcKind kind, int id, bool undo)
{
    if (id < 0)
        return;
    const Entry entry = entry_of(kind, id) | (undo ? undo_bit : 0);
    if (put(entry))
        return;
    sweep();
    if (!put(entry))
        overflowed.store(true);
}

bool send_ipc(int connection)
{
    IpcUse uses[64];
    constexpr uint64_t at_once = sizeof(uses) / sizeof(uses[0]);
    static_assert(at_once <= ipc_at_once);
    uint64_t count = 0;
    for (const std::atomic<Entry> &place : table)
        count += place.load() > given_up ? 1 : 0;
    const Reply answer = {protocol_magic, protocol_version,
                          Op::ipc,        overflowed.load() ? -EOVERFLOW : 0,
                          count,          (count + at_once - 1) / at_once};
    long sent = send_packet(connection, &answer, sizeof(answer));
    uint64_t n = 0;
    for (const std::atomic<Entry> &place : table) {
        const Entry entry = place.load();
        if (entry <= given_up)
            continue;
        uses[n % at_once] = {static_cast<int32_t>(entry & 0xffffffff),
                             static_cast<IpcKind>(entry >> 32 & 0xffff),
                             static_cast<uint16_t>((entry & undo_bit) != 0)};
        n++;
        if ((n % at_once == 0 || n == count) && !sys::failed(sent))
            sent = send_packet(connection, uses, ((n - 1) % at_once + 1) * sizeof(uses[0]));
    }
    return !sys::failed(sent);
}

} // namespace cryo::agent
