// SPDX-License-Identifier: Apache-2.0
#include "cli/number.hpp"

#include <charconv>
#include <fmt/format.h>
#include <limits>

namespace cryo::cli {

namespace {

constexpr int most = std::numeric_limits<int>::max();

// `advice` follows the refused word in the message.
CLI::Validator number(int least, std::string wanted, std::string advice, std::string type)
{
    const auto judge = [least, wanted = std::move(wanted),
                        advice = std::move(advice)](std::string &word) -> std::string {
        int value = 0;
        const char *last = word.data() + word.size();
        const auto [end, error] = std::from_chars(word.data(), last, value);
        const bool digits = end == last && !word.empty() && word.front() != '-';
        if (digits && error == std::errc::result_out_of_range)
            return fmt::format("wants a number of at most {}, not '{}'", most, word);
        if (!digits || error != std::errc() || value < least)
            return fmt::format("wants {}, not '{}'{}", wanted, word, advice);
        word = std::to_string(value);
        return {};
    };
    return {judge, std::move(type)};
}

} // namespace

CLI::Validator above_zero()
{
    return number(1, "a whole number above 0", "", "POSITIVE");
}

CLI::Validator zero_or_more()
{
    return number(0, "a whole number, 0 or more", "", "NONNEGATIVE");
}

CLI::Validator open_descriptor()
{
    return number(0, "the number of an open descriptor", "; a file is named by -f, --file",
                  "DESCRIPTOR");
}

} // namespace cryo::cli
