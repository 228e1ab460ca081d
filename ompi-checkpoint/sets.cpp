// SPDX-License-Identifier: Apache-2.0
#include "sets.hpp"

#include "redundancy/racks.hpp"
#include "redundancy/scheme.hpp"

#include <cerrno>

using cryo::Error;
using cryo::Result;
using nlohmann::json;

Result<json> sets_for(const std::string &redundancy, const std::string &racks)
{
    json fields = json::object();
    if (redundancy.empty() && !racks.empty())
        return Error(EINVAL, "--racks: says which nodes make a set; name a --redundancy");
    if (redundancy.empty())
        return fields;
    if (const auto scheme = cryo::redundancy::parse_scheme(redundancy); !scheme)
        return scheme.error().within("--redundancy");
    fields["redundancy"] = redundancy;
    if (racks.empty())
        return fields;
    const Result<cryo::redundancy::Racks> known = cryo::redundancy::read_racks(racks);
    if (!known)
        return known.error();
    fields["racks"] = json::array();
    for (const auto &[node, rack] : known->of_node)
        fields["racks"].push_back({{"node", node}, {"rack", rack}});
    return fields;
}
