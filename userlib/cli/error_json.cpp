// SPDX-License-Identifier: Apache-2.0
#include "cli/error_json.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

namespace cryo::cli {

namespace {

constexpr struct {
    Reason reason;
    const char *name;
} names[] = {
    {Reason::no_agent, "no-agent"},
    {Reason::not_enterable, "not-enterable"},
    {Reason::has_ended, "has-ended"},
};

} // namespace

nlohmann::ordered_json error_json(const Error &error)
{
    nlohmann::ordered_json said = {{"code", error.code()}, {"text", error.text()}};
    for (const auto &[reason, name] : names) {
        if (reason == error.reason())
            said["reason"] = name;
    }
    if (!error.remark().empty())
        said["remark"] = error.remark();
    return said;
}

Error error_from(const nlohmann::json &said)
{
    const std::string name = said.value("reason", "");
    const auto *known =
        std::ranges::find_if(names, [&](const auto &one) { return one.name == name; });
    const Error error(said.value("code", EIO), said.value("text", ""),
                      known != std::end(names) ? known->reason : Reason::other);
    const std::string remark = said.value("remark", "");
    return remark.empty() ? error : error.with_remark(remark);
}

} // namespace cryo::cli
