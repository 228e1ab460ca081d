// SPDX-License-Identifier: Apache-2.0
// The dynamic loader's locks contain the id of the thread that holds them. In a restored copy
// threads may have other ids: one that was in dlopen could not release its lock, and the next
// thread to want it would wait for ever. So the ids in the locks are replaced before any thread
// continues.
//
// The locks are mutexes in the loader's own data, at places that differ with each release of the C
// library. The data is a few pages; no other 40 bytes there look like a recursive mutex that is
// held by a thread with this id.
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <elf.h>

namespace cryo::agent {

namespace {

constexpr int32_t recursive = 1; // PTHREAD_MUTEX_RECURSIVE_NP

// glibc's struct __pthread_mutex_s on x86-64.
struct Mutex {
    int32_t lock;
    uint32_t count;
    int32_t owner;
    uint32_t users;
    int32_t kind;
    int16_t spins, elision;
    uint64_t list[2]; // of robust mutexes
};
static_assert(sizeof(Mutex) == 40);

bool is_held(const Mutex &mutex)
{
    return mutex.kind == recursive && mutex.lock > 0 && mutex.count > 0 && mutex.owner > 0 &&
           mutex.users > 0 && mutex.elision == 0 && mutex.list[0] == 0 && mutex.list[1] == 0;
}

// A thread's present id, by the id it had when it was saved; 0: there is no such thread.
int present_number(int former)
{
    const Slot &leader = state.slots[max_threads];
    if (leader.facts.tid == former)
        return static_cast<int>(sys::call(SYS_gettid));
    for (size_t i = 0; i < state.threads; i++) {
        if (state.slots[i].former_tid == former)
            return state.slots[i].facts.tid;
    }
    return 0;
}

void renumber(uint64_t start, uint64_t end)
{
    for (uint64_t at = (start + 7) & ~uint64_t(7); at + sizeof(Mutex) <= end; at += 8) {
        auto &mutex = *reinterpret_cast<Mutex *>(at);
        if (!is_held(mutex))
            continue;
        const int owner = present_number(mutex.owner);
        if (owner != 0 && owner != mutex.owner)
            mutex.owner = owner;
    }
}

} // namespace

void renumber_loader_locks()
{
    if (state.loader == 0)
        return;
    const auto &header = *reinterpret_cast<const Elf64_Ehdr *>(state.loader);
    const auto *segments = reinterpret_cast<const Elf64_Phdr *>(state.loader + header.e_phoff);
    for (int i = 0; i < header.e_phnum; i++) {
        const Elf64_Phdr &segment = segments[i];
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_W) != 0)
            renumber(state.loader + segment.p_vaddr,
                     state.loader + segment.p_vaddr + segment.p_memsz);
    }
}

} // namespace cryo::agent
