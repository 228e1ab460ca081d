// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints that were requested before all ranks were there. Starting or restarted ranks come
// soon; those of a program without MPI never do, so a request does not wait for ever.
//
//     early.add(channel, request);
//     early.tell(why);                                  // why it still waits, once
//     for (const EarlyRequest &one : early.take()) ...  // all ranks are there, or never will be
#pragma once

#include "coord/job_ranks.hpp"
#include "coord/loop.hpp"

#include <memory>
#include <string>
#include <vector>

namespace cryo::coord {

struct EarlyRequest {
    std::shared_ptr<Channel> channel;
    nlohmann::json request;
    uint64_t limit = 0; // timer
    std::string told;   // the last reason for waiting that was sent
};

class EarlyRequests
{
  public:
    EarlyRequests(Loop &loop, const JobRanks &ranks) : loop_(loop), ranks_(ranks) {}

    void add(const std::shared_ptr<Channel> &channel, const nlohmann::json &request);
    bool forget(const std::shared_ptr<Channel> &channel); // false: it had none
    bool empty() const { return all_.empty(); }
    void tell(const std::string &why);
    std::vector<EarlyRequest> take();

  private:
    Loop &loop_;
    const JobRanks &ranks_;
    std::vector<EarlyRequest> all_;
};

} // namespace cryo::coord
