// SPDX-License-Identifier: Apache-2.0
#include "agent/advice.hpp"

#include "sys/clock.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace cryo::agent {

namespace {

std::atomic<bool> noticed;
// Stays nonzero in a child that was forked during a call: there the time is never known.
std::atomic<uint32_t> under_way;
// On the monotonic clock. After a restart, or in another time namespace, it may be in the future.
std::atomic<int64_t> last;

// False for advice about pages that leaves the mapping's attributes unchanged.
bool is_lasting(int advice)
{
    constexpr int cold = 20, pageout = 21, populate_read = 22, populate_write = 23,
                  dontneed_locked = 24, collapse = 25; // for older headers
    switch (advice) {
    case MADV_WILLNEED:
    case MADV_DONTNEED:
    case MADV_FREE:
    case MADV_REMOVE:
    case MADV_HWPOISON:
    case cold:
    case pageout:
    case populate_read:
    case populate_write:
    case dontneed_locked:
    case collapse:
        return false;
    default:
        return true;
    }
}

} // namespace

void notice_advice()
{
    noticed.store(true);
}

Advising::Advising(int advice) : lasting_(is_lasting(advice))
{
    if (lasting_)
        under_way.fetch_add(1);
}

Advising::~Advising()
{
    if (!lasting_)
        return;
    last.store(sys::monotonic_ns());
    under_way.fetch_sub(1);
}

uint64_t since_last_advice()
{
    if (!noticed.load() || under_way.load() != 0)
        return 0;
    const int64_t span = sys::monotonic_ns() - last.load();
    return span > 0 ? static_cast<uint64_t>(span) : 0;
}

} // namespace cryo::agent
