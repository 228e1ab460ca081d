// SPDX-License-Identifier: Apache-2.0
//
// A process that has as many descriptors as it may have, for what happens where the kernel cannot
// be asked.
//
//     const NoMoreDescriptors none; // until it goes
#pragma once

#include "base/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace cryo::capture {

// No descriptor can be opened meanwhile, not even a socket for the kernel's diagnostics.
class NoMoreDescriptors
{
  public:
    NoMoreDescriptors()
    {
        EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &before_));
        const Fd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
        rlimit now = before_;
        now.rlim_cur = static_cast<rlim_t>(next.get());
        EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &now));
    }
    ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoMoreDescriptors(const NoMoreDescriptors &) = delete;
    NoMoreDescriptors &operator=(const NoMoreDescriptors &) = delete;

  private:
    rlimit before_ = {};
};

} // namespace cryo::capture
