// SPDX-License-Identifier: Apache-2.0
#include "coord/standstill.hpp"

#include "coord/patience.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

Standstill::Standstill(const nlohmann::json &request, const ImageReports &reports,
                       const Members &members)
    : reports_(reports), members_(members),
      patience_(request.value("patience", default_patience_s)),
      goes_on_(request.value("after", "none") == "none"),
      rate_(request.value("copy_rate", uint64_t(0)))
{}

// At the cut all ranks stand still, until each of them has asked for its image and gone on: one
// that does not, and whose daemon speaks, would hold the others. One that goes on without an image
// would hold the checkpoint. An image under way is no step that is missing.
std::optional<std::string> Standstill::at_cut(bool agreed)
{
    if (patience_.count() == 0)
        return std::nullopt;
    const auto limit =
        std::max<std::chrono::milliseconds>(patience_, image_patience * longest_silence());
    const size_t steps = 1 + reports_.steps();
    if (std::exchange(steps_, steps) != steps)
        stepped_ = Clock::now();
    if (Clock::now() - stepped_ <= limit)
        return std::nullopt;
    // Else they wait for the commit, or have gone on.
    bool going = goes_on_ && !agreed;
    for (const auto &[rank, place] : reports_.ranks()) {
        const bool frozen = reports_.is_frozen(rank);
        if (!frozen && !reports_.growth().contains(rank) && members_.all().contains(place.member))
            return fmt::format("rank {} on node {} {}: it has not asked for its image for {}", rank,
                               members_.name(place.member),
                               agreed ? "has gone on from the cut" : "keeps the others at the cut",
                               in_seconds(limit));
        going = going && frozen;
    }
    if (!going)
        return std::nullopt;
    return fmt::format("a rank keeps the others at the cut: not all have gone on from their images "
                       "for {}",
                       in_seconds(limit));
}

// Finds an unfinished image that has stopped growing, whether or not its daemon still reports on
// it, or is said to grow without end. Before any rank has gone on from the cut, all of them may be
// busy with what their programs do before an image: they have more time. A large image has more
// time than a small one, whatever --time is, which is about ranks.
std::optional<std::string> Standstill::of_images(bool pending) const
{
    const bool endless = patience_.count() == 0;
    std::chrono::milliseconds limit = image_patience * longest_silence();
    const auto longest = std::max(limit, longest_image(patience_.count()));
    if (pending)
        limit = std::max<std::chrono::milliseconds>(limit, patience_);
    // At least that is an image's share of it, however many of the ranks are on its node.
    const uint64_t share =
        rate_ > 0 ? std::max<uint64_t>(rate_ / std::max<size_t>(reports_.ranks().size(), 1), 1) : 0;
    const auto now = Clock::now();
    for (const auto &[rank, image] : reports_.growth()) {
        if (reports_.has_image(rank))
            continue;
        const auto most = longest + time_to_write(image.bytes, share);
        if ((!pending || !endless) && now - image.since > limit)
            return fmt::format("rank {}: its image has not grown for {}; is its disk there?", rank,
                               in_seconds(limit));
        if (!endless && now - image.begun > most)
            return fmt::format("rank {} on node {}: its image has grown for {}, and is not there; "
                               "--time gives it longer",
                               rank, members_.name(reports_.ranks().at(rank).member),
                               in_seconds(most));
    }
    return std::nullopt;
}

} // namespace cryo::coord
