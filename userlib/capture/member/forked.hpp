// SPDX-License-Identifier: Apache-2.0
//
// Members that are forks of others: pages that a fork has as its parent are stored once, since its
// image is a delta of the parent's, in the same archive.
//
//     ForkedMembers forked(members);             // in the order of their images
//     forked.begin(member, writer_options);      // before its image is begun
//     forked.end(member, committed);             // when its image is complete
#pragma once

#include "capture/memory/delta_plan.hpp"
#include "image/writer.hpp"

#include <map>
#include <memory>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Member;

class ForkedMembers
{
  public:
    ForkedMembers() = default;
    explicit ForkedMembers(const std::vector<std::unique_ptr<Member>> &members);

    void begin(Member &member, image::WriterOptions &options);
    void end(Member &member, const image::Committed &done);

  private:
    std::map<pid_t, pid_t> parents_;         // of each fork
    std::map<pid_t, size_t> forks_;          // how many of each parent are still to be saved
    std::map<pid_t, DeltaPlan::Base> bases_; // by the parent's pid
    std::map<pid_t, uint32_t> generations_;  // whose images one needs, without itself
};

} // namespace cryo::capture
