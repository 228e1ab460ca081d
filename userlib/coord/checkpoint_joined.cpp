// SPDX-License-Identifier: Apache-2.0
// What a checkpoint hears of many daemons at once (joined_reports.hpp). A daemon can speak for
// those below it in the tree, and for their ranks.
#include "coord/checkpoint.hpp"
#include "coord/joined_reports.hpp"

#include <algorithm>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

bool Checkpoint::hear_joined(uint32_t child, const Message &message)
{
    const json &fields = message.fields;
    if (stage_ == Stage::over)
        return true;
    if (fields.contains("look") && !hear_alive(child, fields))
        return false;
    if (fields.value("checkpoint", uint64_t(0)) != number_)
        return true;
    return (!fields.contains("prepared") || hear_prepared(child, fields.at("prepared"))) &&
           hear_images(child, fields);
}

// A daemon has lived at the time at which it was asked, however late its answer comes.
bool Checkpoint::hear_alive(uint32_t child, const json &fields)
{
    const auto when = silence_.when_asked(fields.at("look"));
    const bool good = each_of(fields.value("alive", json::array()), around_.members.all().size(),
                              [&](uint32_t index) {
                                  const auto member = around_.ranks.member_below(child, index);
                                  Member *at = member ? around_.members.find(*member) : nullptr;
                                  if (at != nullptr && when)
                                      at->heard = std::max(at->heard, *when);
                                  return member.has_value();
                              });
    const json sizes = fields.value("sizes", json::array());
    size_t next = 0;
    return good && each_rank(child, fields.value("growing", json::array()), [&](uint32_t rank) {
               if (next < sizes.size() && is_taking_images())
                   reports_.grow(rank, sizes[next]);
               next++;
           });
}

bool Checkpoint::hear_prepared(uint32_t child, const json &runs)
{
    const bool good = each_of(runs, around_.members.all().size(), [&](uint32_t index) {
        const auto member = around_.ranks.member_below(child, index);
        if (member && stage_ == Stage::preparing)
            awaited_.erase(*member);
        return member.has_value();
    });
    if (good && stage_ == Stage::preparing && awaited_.empty())
        all_have_answered();
    return good;
}

bool Checkpoint::hear_images(uint32_t child, const json &fields)
{
    const bool any =
        fields.contains("cut") || fields.contains("local") || fields.contains("images");
    if (!any || !images_are_due(around_.ranks.child(child)))
        return true;
    if (!each_rank(child, fields.value("cut", json::array()),
                   [this](uint32_t rank) { reports_.cut(rank); }) ||
        !each_rank(child, fields.value("local", json::array()), [this](uint32_t rank) {
            if (request_.contains("local"))
                image_on_node(rank);
        }))
        return false;
    const json bytes = fields.value("bytes", json::array());
    const json checksums = fields.value("checksums", json::array());
    const auto stopped = fields.value("stopped_ns", uint64_t(0));
    size_t next = 0;
    const bool good = each_rank(child, fields.value("images", json::array()), [&](uint32_t rank) {
        const size_t at = next++;
        if (at >= bytes.size() || reports_.has_image(rank))
            return;
        add_image({.rank = rank,
                   .bytes = bytes[at],
                   .checksum = at < checksums.size() ? checksums[at].get<std::string>() : "",
                   .is_described = true},
                  stopped);
    });
    for (const json &notice : fields.value("notices", json::array()))
        reports_.notices().add(notice.get<std::string>());
    look_at_images();
    return good;
}

// False: one of them is not below that child.
bool Checkpoint::each_rank(uint32_t child, const json &runs,
                           const std::function<void(uint32_t)> &call)
{
    return each_of(runs, reports_.ranks().size(), [&](uint32_t rank) {
        const auto at = reports_.ranks().find(rank);
        if (at == reports_.ranks().end() || !around_.ranks.is_below(child, at->second.member))
            return false;
        call(rank);
        return true;
    });
}

} // namespace cryo::coord
