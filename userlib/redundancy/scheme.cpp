// SPDX-License-Identifier: Apache-2.0
#include "redundancy/scheme.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cryo::redundancy {

namespace {

constexpr std::string_view reed_solomon_prefix = "rs:";

std::vector<std::string> named(const std::vector<std::string> &members,
                               const std::vector<bool> &lost)
{
    std::vector<std::string> names;
    for (size_t i = 0; i < members.size(); i++) {
        if (lost[i])
            names.push_back(members[i]);
    }
    return names;
}

// The first member that is lost together with the one that has its copy.
size_t lost_pair(const std::vector<bool> &lost)
{
    for (size_t i = 0; i < lost.size(); i++) {
        if (lost[i] && lost[(i + 1) % lost.size()])
            return i;
    }
    return lost.size();
}

} // namespace

Result<Scheme> parse_scheme(std::string_view text)
{
    if (text == "partner")
        return Scheme{.kind = Kind::partner};
    if (text == "xor")
        return Scheme{};
    if (text.starts_with(reed_solomon_prefix)) {
        const std::string_view digits = text.substr(reed_solomon_prefix.size());
        uint32_t losses = 0;
        const auto [end, failed] =
            std::from_chars(digits.data(), digits.data() + digits.size(), losses);
        if (failed == std::errc() && end == digits.data() + digits.size() && losses > 0 &&
            losses < most_members)
            return losses == 1 ? Scheme{} : Scheme{.kind = Kind::reed_solomon, .losses = losses};
    }
    return Error(EINVAL, fmt::format("'{}' is no redundancy: choose partner, xor, or rs:M, where M "
                                     "nodes of a set may be lost (1 to {})",
                                     text, most_members - 1));
}

std::string text_of(const Scheme &scheme)
{
    switch (scheme.kind) {
    case Kind::partner:
        return "partner";
    case Kind::parity:
        return "xor";
    case Kind::reed_solomon:
        break;
    }
    return fmt::format("{}{}", reed_solomon_prefix, scheme.losses);
}

uint32_t fewest_members(const Scheme &scheme)
{
    return scheme.losses + 1;
}

Result<void> check_loss(const Scheme &scheme, const std::vector<std::string> &members,
                        const std::vector<bool> &lost)
{
    if (scheme.kind == Kind::partner) {
        const size_t pair = lost_pair(lost);
        if (pair == lost.size())
            return {};
        return Error(ENODATA,
                     fmt::format("{} is lost together with {}, which had the copy of its images",
                                 members[pair], members[(pair + 1) % members.size()]));
    }
    const auto count = static_cast<size_t>(std::ranges::count(lost, true));
    if (count <= scheme.losses)
        return {};
    return Error(ENODATA, fmt::format("{} nodes of a set are lost ({}), and {} brings back {}",
                                      count, fmt::join(named(members, lost), ", "), text_of(scheme),
                                      scheme.losses));
}

} // namespace cryo::redundancy
