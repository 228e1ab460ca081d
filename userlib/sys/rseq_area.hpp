// SPDX-License-Identifier: Apache-2.0
//
// Where glibc registered the calling thread's rseq area. Older glibcs, or a tunable, may have none.
#pragma once

#include <cstdint>
#include <sys/rseq.h>

#pragma weak __rseq_offset
#pragma weak __rseq_size

namespace cryo::sys {

struct RseqArea {
    uint64_t address; // 0: none
    uint32_t size;    // as registered
};

inline RseqArea rseq_area(uint64_t fs_base)
{
    if (&__rseq_size == nullptr || __rseq_size == 0)
        return {0, 0};
    // __rseq_size is the part of the area in use; the registered size is at least 32 bytes.
    return {fs_base + static_cast<uint64_t>(__rseq_offset), __rseq_size < 32 ? 32 : __rseq_size};
}

} // namespace cryo::sys
