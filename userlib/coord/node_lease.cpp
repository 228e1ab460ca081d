// SPDX-License-Identifier: Apache-2.0
#include "coord/node_lease.hpp"

#include "base/clock.hpp"
#include "base/print.hpp"

namespace cryo::coord {

void NodeLease::ask()
{
    asked_ = clock_ns(CLOCK_BOOTTIME);
}

void NodeLease::begin(const Message &joined)
{
    length_ = joined.fields.value("lease_ns", int64_t(0));
    if (length_ == 0)
        return;
    lease_.emplace(length_);
    lease_->granted(lease_->ask(asked_));
}

Result<void> NodeLease::arm()
{
    if (!lease_)
        return {};
    Result<OwnEnd> end = OwnEnd::make();
    if (!end)
        return end.error();
    end_ = *end;
    if (Result<void> set = end_->at(lease_->end()); !set)
        return set;
    renew();
    return {};
}

void NodeLease::renew()
{
    report_(Message(Type::renew, {{"number", lease_->ask(clock_ns(CLOCK_BOOTTIME))}}));
    loop_.after(renewal_of(length_) / 1'000'000, [this] { renew(); });
}

// Without a later end the earlier one stays, which is safe.
void NodeLease::granted(const Message &renewed)
{
    if (!end_)
        return;
    lease_->granted(renewed.fields.at("number"));
    if (Result<void> set = end_->at(lease_->end()); !set)
        print(stderr, "mpi-daemon: {}\n", set.error().text());
}

} // namespace cryo::coord
