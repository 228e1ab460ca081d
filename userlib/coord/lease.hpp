// SPDX-License-Identifier: Apache-2.0
//
// Leases of the nodes of a supervised job (docs/recovery.md): arithmetic without a clock or a
// socket. Times are nanoseconds of CLOCK_BOOTTIME of the host that uses them, and never sent.
//
//     Lease lease(times.lease);                // of a node's daemon
//     const uint64_t number = lease.ask(now);  // sent to the first daemon
//     lease.granted(number);                   // its answer; lease.end() is later now
//
//     Grants grants(times);                    // of the first daemon
//     grants.grant(member, now);               // just before the answer goes out
//     for (uint32_t member : grants.unrenewed(now)) ...
//     const int64_t over = grants.over(member); // then nothing of that node acts any more
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace cryo::coord {

struct LeaseTimes {
    int64_t lease;   // counted by a node from when it has asked for it
    int64_t margin;  // for clocks that run unequally, and for processes to end
    int64_t renewal; // between two requests
};

// Of CRYO_DEADLINE.
LeaseTimes lease_times();
// Of a lease of this length.
int64_t renewal_of(int64_t lease);

class Lease
{
  public:
    explicit Lease(int64_t length) : length_(length) {}

    uint64_t ask(int64_t now);
    void granted(uint64_t number);       // of a request; any other number changes nothing
    int64_t end() const { return end_; } // 0: nothing was granted yet

  private:
    int64_t length_;
    int64_t end_ = 0;
    uint64_t numbers_ = 0;
    std::map<uint64_t, int64_t> asked_; // what is not answered, and when it was asked
};

// A node counts from its request, which was before the grant: so its lease ends before this one.
class Grants
{
  public:
    explicit Grants(LeaseTimes times) : times_(times) {}

    void grant(uint32_t member, int64_t now) { granted_[member] = now; }
    void forget(uint32_t member) { granted_.erase(member); }
    bool has(uint32_t member) const { return granted_.contains(member); }
    bool empty() const { return granted_.empty(); }
    // Members whose lease has ended.
    std::vector<uint32_t> unrenewed(int64_t now) const;
    // 0: it has never had a lease.
    int64_t over(uint32_t member) const;

  private:
    LeaseTimes times_;
    std::map<uint32_t, int64_t> granted_; // when last
};

} // namespace cryo::coord
