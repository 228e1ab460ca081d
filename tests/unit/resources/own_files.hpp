// SPDX-License-Identifier: Apache-2.0
//
// Descriptors of the test itself, as a checkpoint sees those of a program.
//
//     Seen one = see(std::move(fd));
#pragma once

#include "look/proc.hpp"
#include "resources/kinds.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

inline Seen see(Fd fd)
{
    Seen seen;
    seen.fd = fd.get();
    const capture::Proc own(getpid());
    const Result<std::string> link = own.link("fd/" + std::to_string(seen.fd));
    const Result<std::string> info = own.read("fdinfo/" + std::to_string(seen.fd));
    EXPECT_TRUE(link && info);
    EXPECT_EQ(fstat(fd.get(), &seen.status), 0);
    seen.link = link ? *link : "";
    seen.info = info ? *info : "";
    seen.flags = static_cast<uint32_t>(fcntl(fd.get(), F_GETFL));
    seen.shared = std::move(fd);
    seen.kind = kind_of(seen);
    return seen;
}

} // namespace cryo::resources
