// SPDX-License-Identifier: Apache-2.0
#include "coord/endings.hpp"

namespace cryo::coord {

void Endings::comes(bool first)
{
    if (first && all_came_)
        *this = Endings();
}

void Endings::gone(uint32_t rank, bool well)
{
    const bool has_told = told_.erase(rank) != 0;
    if (well)
        return;
    unfinished_ = true;
    faulted_ = faulted_ || (!has_told && !decided_);
}

bool Endings::ends(uint32_t rank)
{
    told_.insert(rank);
    if (!faulted_)
        decided_ = true;
    return true;
}

bool Endings::gives_up(uint32_t rank)
{
    told_.insert(rank);
    return is_decided();
}

} // namespace cryo::coord
