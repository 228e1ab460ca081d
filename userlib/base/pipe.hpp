// SPDX-License-Identifier: Apache-2.0
//
// Both ends of a pipe, close-on-exec:
//
//     Result<PipeEnds> pipe = make_pipe();
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace cryo {

struct PipeEnds {
    Fd read, write;
};

inline Result<PipeEnds> make_pipe()
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    return PipeEnds{Fd(ends[0]), Fd(ends[1])};
}

} // namespace cryo
