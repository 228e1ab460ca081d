// SPDX-License-Identifier: Apache-2.0
// The capsule never takes the program's signals: dispositions set by its libraries are recorded
// here and do not reach the kernel, so their crash handlers do not affect the program.
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/lock.hpp"

#include <cerrno>

namespace cryo::capsule::dispositions {

namespace {

struct KernelAction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    unsigned long mask;
};

constexpr long most = 64;
Lock lock;
KernelAction actions[most + 1];

} // namespace

void reset()
{
    Hold hold(lock);
    for (KernelAction &action : actions)
        action = {};
}

void forget()
{
    lock.forget();
    reset();
}

long set(const long *a)
{
    const auto *wanted = reinterpret_cast<const KernelAction *>(a[1]);
    auto *old = reinterpret_cast<KernelAction *>(a[2]);
    if (a[0] < 1 || a[0] > most)
        return -EINVAL;
    Hold hold(lock);
    const KernelAction before = actions[a[0]];
    if (wanted != nullptr)
        actions[a[0]] = *wanted;
    if (old != nullptr)
        *old = before;
    return 0;
}

} // namespace cryo::capsule::dispositions
