// SPDX-License-Identifier: Apache-2.0
#include "agent/sharers.hpp"

#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <cstdint>

namespace cryo::agent {

namespace {

constexpr uint32_t most = 16; // of the last children; one that is forgotten is as it is elsewhere

// The id of a child that has ended may be that of a later one, which then keeps what it would
// close.
constinit std::atomic<int> pids[most];
constinit std::atomic<uint32_t> count;
constinit std::atomic<bool> apart;

} // namespace

void note_sharer(bool has_own_memory)
{
    pids[count.fetch_add(1) % most].store(static_cast<int>(sys::call(SYS_getpid)));
    if (has_own_memory)
        apart.store(true);
}

void forget_sharers()
{
    for (std::atomic<int> &pid : pids)
        pid.store(0);
    apart.store(false);
}

bool has_our_descriptors()
{
    const auto own = static_cast<int>(sys::call(SYS_getpid));
    if (own == state.pid)
        return true;
    for (const std::atomic<int> &pid : pids) {
        if (pid.load() == own)
            return true;
    }
    return false;
}

bool has_our_memory()
{
    return !apart.load();
}

} // namespace cryo::agent
