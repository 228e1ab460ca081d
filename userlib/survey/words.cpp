// SPDX-License-Identifier: Apache-2.0
#include "survey/words.hpp"

#include "base/clock.hpp"
#include "cli/text.hpp"

#include <algorithm>

namespace cryo::survey {

std::string age_text(int64_t since_1970_ns)
{
    if (since_1970_ns == 0)
        return "-";
    const int64_t age = std::max<int64_t>(clock_ns(CLOCK_REALTIME) - since_1970_ns, 0);
    return cli::duration_text(static_cast<uint64_t>(age)) + " ago";
}

std::string number_text(pid_t number)
{
    return number != 0 ? std::to_string(number) : "-";
}

std::string words_of(std::string_view joined)
{
    std::string text;
    for (const std::string &word : cli::split_strings(joined))
        text += (text.empty() ? "" : " ") + word;
    return text;
}

} // namespace cryo::survey
