// SPDX-License-Identifier: Apache-2.0
// Interposes the functions of the C library that return or take the id of a System V object, to
// record the id (ipc.cpp). An id that the program knows from elsewhere is recorded before the call
// that may wait. A Deaf keeps checkpoints out between the creation of an object and its recording,
// as a signal that arrives during the call would otherwise be handled just then.
#include "agent/deaf.hpp"
#include "agent/interposed.hpp"
#include "agent/timed_wait.hpp"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

namespace cryo::agent {

namespace {

struct {
    int (*shmget)(key_t, size_t, int) noexcept;
    void *(*shmat)(int, const void *, int) noexcept;
    int (*semget)(key_t, int, int) noexcept;
    int (*semop)(int, sembuf *, size_t) noexcept;
    int (*semtimedop)(int, sembuf *, size_t, const timespec *) noexcept;
    int (*msgget)(key_t, int) noexcept;
    int (*msgsnd)(int, const void *, size_t, int);
    ssize_t (*msgrcv)(int, void *, size_t, long, int);
} real;

template <class F>
F known(F &function)
{
    return known_by(function, find_real_ipc_functions);
}

bool undoes(const sembuf *operations, size_t count)
{
    // The kernel refuses larger counts, so such an array may be shorter than it says.
    constexpr size_t most = 500; // SEMOPM
    for (size_t i = 0; i < count && count <= most; i++) {
        if ((operations[i].sem_flg & SEM_UNDO) != 0)
            return true;
    }
    return false;
}

int returned(IpcKind kind, int id)
{
    remember_ipc(kind, id, false);
    return id;
}

} // namespace

void find_real_ipc_functions()
{
    find(real.shmget, "shmget");
    find(real.shmat, "shmat");
    find(real.semget, "semget");
    find(real.semop, "semop");
    find(real.semtimedop, "semtimedop");
    find(real.msgget, "msgget");
    find(real.msgsnd, "msgsnd");
    find(real.msgrcv, "msgrcv");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int shmget(key_t key, size_t size, int flags) noexcept
{
    const Deaf deaf;
    return returned(IpcKind::segment, known(real.shmget)(key, size, flags));
}

CRYO_INTERPOSED void *shmat(int id, const void *address, int flags) noexcept
{
    remember_ipc(IpcKind::segment, id, false);
    return known(real.shmat)(id, address, flags);
}

CRYO_INTERPOSED int semget(key_t key, int count, int flags) noexcept
{
    const Deaf deaf;
    return returned(IpcKind::semaphores, known(real.semget)(key, count, flags));
}

CRYO_INTERPOSED int semop(int id, sembuf *operations, size_t count) noexcept
{
    remember_ipc(IpcKind::semaphores, id, undoes(operations, count));
    return known(real.semop)(id, operations, count);
}

CRYO_INTERPOSED int semtimedop(int id, sembuf *operations, size_t count,
                               const timespec *timeout) noexcept
{
    remember_ipc(IpcKind::semaphores, id, undoes(operations, count));
    if (!TimedWait::takes(timeout))
        return known(real.semtimedop)(id, operations, count, timeout);
    TimedWait wait(*timeout);
    return known(real.semtimedop)(id, operations, count, wait.limit());
}

CRYO_INTERPOSED int msgget(key_t key, int flags) noexcept
{
    const Deaf deaf;
    return returned(IpcKind::queue, known(real.msgget)(key, flags));
}

CRYO_INTERPOSED int msgsnd(int id, const void *message, size_t size, int flags)
{
    remember_ipc(IpcKind::queue, id, false);
    return known(real.msgsnd)(id, message, size, flags);
}

CRYO_INTERPOSED ssize_t msgrcv(int id, void *message, size_t size, long type, int flags)
{
    remember_ipc(IpcKind::queue, id, false);
    return known(real.msgrcv)(id, message, size, type, flags);
}

} // extern "C"
