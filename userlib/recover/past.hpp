// SPDX-License-Identifier: Apache-2.0
//
// What a supervised program or job can come back from, looked at when it has ended and no keeper
// makes more of it: images of a program, or snapshots of a job.
//
//     Result<std::unique_ptr<Past>> past = subject.past();
//     next = decision.after(end, (*past)->offer());
//     (*past)->abandon("context.000007");
#pragma once

#include "base/result.hpp"
#include "recover/decision.hpp"

#include <string>

namespace cryo::recover {

class Past
{
  public:
    Past() = default;
    Past(Past &&) = default;
    Past &operator=(Past &&) = default;
    virtual ~Past() = default;

    const Offer &offer() const { return offer_; }
    // Nothing comes from it any more.
    virtual Result<void> abandon(const std::string &name) = 0;

  protected:
    Offer offer_;
};

} // namespace cryo::recover
