// SPDX-License-Identifier: Apache-2.0
//
// The values in a text of Cryo's own (exposition.hpp), one a line. The text may be anybody's work:
// what Exposition would not write is refused.
//
//     Result<std::vector<Sample>> samples = parse_samples(text);
//     if (samples && samples->front().labels == Labels{{"pid", "412"}}) ...
#pragma once

#include "base/result.hpp"
#include "metrics/exposition.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::metrics {

struct Sample {
    std::string name;
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0; // neither negative nor unbelievably large
};

// EBADMSG: there is none, or what is no sample of a metric of Cryo's.
Result<std::vector<Sample>> parse_samples(std::string_view text);

// Which of the families has that name; nothing: none, as one of a later Cryo.
std::optional<size_t> find_family(std::span<const Family> families, std::string_view name);

// EBADMSG, with the beginning of the line that is wrong.
Error malformed(std::string_view line);

} // namespace cryo::metrics
