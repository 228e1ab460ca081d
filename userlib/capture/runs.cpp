// SPDX-License-Identifier: Apache-2.0
#include "capture/runs.hpp"

#include <algorithm>

namespace cryo::capture {

std::vector<Run> without(const std::vector<Run> &a, const std::vector<Run> &b)
{
    std::vector<Run> left;
    auto other = b.begin();
    for (Run run : a) {
        while (other != b.end() && other->end <= run.start)
            ++other;
        for (auto in = other; in != b.end() && in->start < run.end; ++in) {
            if (in->start > run.start)
                left.push_back({run.start, in->start});
            run.start = std::max(run.start, in->end);
        }
        if (run.start < run.end)
            left.push_back(run);
    }
    return left;
}

std::vector<Run> common_part(const std::vector<Run> &a, const std::vector<Run> &b)
{
    return without(a, without(a, b));
}

} // namespace cryo::capture
