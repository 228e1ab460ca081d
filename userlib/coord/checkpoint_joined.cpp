// SPDX-License-Identifier: Apache-2.0
// What a checkpoint hears of many daemons at once (joined_reports.hpp). A daemon can speak for
// those below it in the tree, and for their ranks.
#include "coord/checkpoint.hpp"
#include "coord/joined_reports.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace cryo::coord {

using nlohmann::json;

namespace {

const json &list_in(const json &fields, const char *name)
{
    static const json none = json::array();
    const auto at = fields.find(name);
    return at != fields.end() ? *at : none;
}

} // namespace

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
    const bool good =
        each_of(list_in(fields, "alive"), around_.members.all().size(), [&](uint32_t index) {
            const auto member = around_.ranks.member_below(child, index);
            Member *at = member ? around_.members.find(*member) : nullptr;
            if (at != nullptr && when)
                at->heard = std::max(at->heard, *when);
            return member.has_value();
        });
    const json &sizes = list_in(fields, "sizes");
    size_t next = 0;
    return good && each_rank(child, list_in(fields, "growing"), [&](uint32_t rank) {
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
    const json &bytes = list_in(fields, "bytes");
    const json &checksums = list_in(fields, "checksums");
    const auto stopped = fields.value("stopped_ns", uint64_t(0));
    const std::optional<Deltas> deltas =
        deltas_of(list_in(fields, "deltas"), reports_.ranks().size());
    // A rank that is listed is so with a size of its own.
    const bool has_images = fields.contains("images");
    if (!deltas || (has_images && is_counted_ != fields.contains("total")) ||
        (is_counted_ && !deltas->empty()))
        return false;
    size_t next = 0;
    // First, so that those which are there already do not count as under way.
    const auto add = [&](uint32_t rank) {
        const size_t at = next++;
        if (is_counted_ && is_taking_images())
            reports_.add(rank, {.is_described = true}, stopped);
        if (at >= bytes.size() || reports_.has_image(rank))
            return;
        const auto delta = deltas->find(rank);
        const std::vector<int> needs = delta != deltas->end() ? delta->second : std::vector<int>();
        if (is_taking_images() && has_bases(rank, needs))
            add_image(rank,
                      {.bytes = bytes[at],
                       .checksum = at < checksums.size() ? checksums[at].get<std::string>() : "",
                       .needs = needs,
                       .is_described = true},
                      stopped);
    };
    const auto cut = [this](uint32_t rank) { reports_.cut(rank); };
    const auto local = [this](uint32_t rank) {
        if (request_.contains("local"))
            image_on_node(rank);
    };
    const bool good = each_rank(child, list_in(fields, "images"), add) &&
                      each_rank(child, list_in(fields, "cut"), cut) &&
                      each_rank(child, list_in(fields, "local"), local);
    if (good && has_images && is_counted_)
        reports_.add_bytes(fields.at("total"));
    for (const json &notice : list_in(fields, "notices"))
        reports_.notices().add(notice.get<std::string>());
    look_at_images();
    return good;
}

// False: one of them is not below that child.
bool Checkpoint::each_rank(uint32_t child, const json &runs,
                           const std::function<void(uint32_t)> &call)
{
    // Where the tree is that of this checkpoint, what is below a child need not be looked for.
    const bool is_same = around_.ranks.generation() == generation_;
    const auto is_below = [&](uint32_t rank) {
        return is_same ? around_.ranks.has_below(child, rank)
                       : around_.ranks.is_below(child, reports_.ranks().at(rank).member);
    };
    return each_of(runs, reports_.ranks().size(), [&](uint32_t rank) {
        if (!reports_.has_rank(rank) || !is_below(rank))
            return false;
        call(rank);
        return true;
    });
}

} // namespace cryo::coord
