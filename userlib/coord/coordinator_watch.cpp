// SPDX-License-Identifier: Apache-2.0
// What a checkpoint must not wait for endlessly, because ranks are stopped
// meanwhile: silent daemons, this one among them, and images that do not grow.
#include "coord/coordinator.hpp"
#include "coord/patience.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int image_patience = 12; // times longest_silence(): a disk may be slow to sync

} // namespace

// A checkpoint must not wait endlessly for the daemons of nodes, because
// programs are stopped meanwhile. So the daemons are polled regularly.
void Coordinator::watch_members()
{
    const auto limit = longest_silence();
    now_->looked = Clock::now();
    tell_all(Message(Type::look));
    if (!now_)
        return;
    loop_.after(limit.count() / looks_in_silence, [this, number = now_->number] {
        if (now_ && now_->number == number && now_->stage != Stage::held && look_at_members())
            watch_members();
    });
}

// False: the checkpoint is over.
bool Coordinator::look_at_members()
{
    if (now_->stage == Stage::cancelling) {
        for (const uint32_t member : silent_members())
            now_->awaited.erase(member);
        if (Clock::now() - now_->given_up > image_patience * longest_silence())
            now_->awaited.clear(); // they speak, and do not say that they have stopped
        if (now_->awaited.empty())
            end_checkpoint();
        return now_.has_value();
    }
    // Once all ranks have resumed, it does no harm that this daemon has not polled for a while.
    const bool asked = Clock::now() - now_->looked < longest_silence();
    if (const auto why = silence(); why && (asked || !now_->agreed))
        give_up(*why, ETIMEDOUT);
    if (now_)
        look_at_cut();
    if (now_ && asked) // else what daemons have said meanwhile is not read yet
        look_at_growth();
    // The whole job may have been stopped with this daemon, by a scheduler: no image grew then.
    if (now_ && !asked) {
        const auto still = Clock::now() - now_->looked;
        for (auto &[rank, image] : now_->progress) {
            image.begun += still;
            image.since += still;
        }
    }
    return now_.has_value();
}

bool Coordinator::stands_still() const
{
    const bookmark::Node *node = local_.node();
    return node != nullptr && node->at_cut();
}

// At the cut all ranks stand still, until each of them has asked for its image and gone on: one
// that does not, and whose daemon speaks, would hold the others. One that goes on without an image
// would hold the checkpoint. An image under way is no step that is missing.
void Coordinator::look_at_cut()
{
    const int64_t patience = now_->request.value("patience", default_patience_s);
    if ((now_->stage != Stage::pending && now_->stage != Stage::running) || patience == 0 ||
        !(now_->agreed || stands_still()))
        return;
    const auto limit = std::max<std::chrono::milliseconds>(std::chrono::seconds(patience),
                                                           image_patience * longest_silence());
    const size_t steps = 1 + now_->progress.size() + now_->cut.size() + now_->images.size();
    if (std::exchange(now_->steps, steps) != steps)
        now_->stepped = Clock::now();
    if (Clock::now() - now_->stepped <= limit)
        return;
    // Else they wait for the commit, or have gone on.
    bool going = now_->request.value("after", "none") == "none" && !now_->agreed;
    for (const auto &[rank, place] : now_->ranks) {
        const bool frozen = now_->cut.contains(rank) || now_->images.contains(rank);
        if (!frozen && !now_->progress.contains(rank) && members_.contains(place.member)) {
            give_up(fmt::format("rank {} on node {} {}: it has not asked for its image for {}",
                                rank, members_.at(place.member).name,
                                now_->agreed ? "has gone on from the cut"
                                             : "keeps the others at the cut",
                                in_seconds(limit)),
                    ETIMEDOUT);
            return;
        }
        going = going && frozen;
    }
    if (going)
        give_up(fmt::format(
                    "a rank keeps the others at the cut: not all have gone on from their images "
                    "for {}",
                    in_seconds(limit)),
                ETIMEDOUT);
}

std::vector<uint32_t> Coordinator::silent_members() const
{
    std::vector<uint32_t> silent;
    for (const auto &[number, one] : members_) {
        if (Clock::now() - std::max(one.heard, now_->begun) >= longest_silence())
            silent.push_back(number);
    }
    return silent;
}

// Says that a daemon, perhaps this one, was stopped
// or busy for too long. Its ranks may have resumed.
std::optional<std::string> Coordinator::silence() const
{
    const auto own =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - now_->looked);
    if (own >= longest_silence())
        return fmt::format("node {}: its daemon, the job's first, stood still for {}",
                           members_.at(0).name, in_seconds(own));
    const std::vector<uint32_t> silent = silent_members();
    if (silent.empty())
        return std::nullopt;
    std::string names;
    for (const uint32_t number : silent)
        names += fmt::format("{}{}", names.empty() ? "" : ", ", members_.at(number).name);
    return fmt::format("node {}: its daemon has said nothing for {}; look at that node, or give it "
                       "longer (CRYO_DEADLINE)",
                       names, in_seconds(longest_silence()));
}

void Coordinator::look_at_progress(uint32_t member, const Message &message)
{
    if (!now_ || (now_->stage != Stage::pending && now_->stage != Stage::running))
        return;
    for (const json &one : message.fields.at("images")) {
        const uint32_t rank = one.at("rank");
        const uint64_t bytes = one.at("bytes");
        if (!speaks_for(member, rank))
            return;
        const auto now = Clock::now();
        Progress &image = now_->progress.try_emplace(rank, Progress{bytes, now, now}).first->second;
        if (std::exchange(image.bytes, bytes) != bytes)
            image.since = now;
    }
}

// Gives up when an unfinished image has stopped growing, whether or not its daemon still reports on
// it, or is said to grow without end. Before any rank has gone on from the cut, all of them may be
// busy with what their programs do before an image: they have more time. A large image has more
// time than a small one, whatever --time is, which is about ranks.
void Coordinator::look_at_growth()
{
    if (now_->stage != Stage::pending && now_->stage != Stage::running)
        return;
    const bool pending = now_->stage == Stage::pending;
    const std::chrono::seconds patience(now_->request.value("patience", default_patience_s));
    const bool endless = patience.count() == 0;
    std::chrono::milliseconds limit = image_patience * longest_silence();
    const auto longest = std::max(limit, longest_image(patience.count()));
    if (pending)
        limit = std::max<std::chrono::milliseconds>(limit, patience);
    const auto rate = now_->request.value("copy_rate", uint64_t(0));
    // At least that is an image's share of it, however many of the ranks are on its node.
    const uint64_t share =
        rate > 0 ? std::max<uint64_t>(rate / std::max<size_t>(now_->ranks.size(), 1), 1) : 0;
    const auto now = Clock::now();
    for (const auto &[rank, image] : now_->progress) {
        if (now_->images.contains(rank))
            continue;
        const auto most = longest + time_to_write(image.bytes, share);
        const auto member = members_.find(now_->ranks.at(rank).member);
        std::string why;
        if ((!pending || !endless) && now - image.since > limit)
            why = fmt::format("rank {}: its image has not grown for {}; is its disk there?", rank,
                              in_seconds(limit));
        else if (!endless && now - image.begun > most)
            why = fmt::format("rank {} on node {}: its image has grown for {}, and is not there; "
                              "--time gives it longer",
                              rank, member != members_.end() ? member->second.name : "",
                              in_seconds(most));
        if (!why.empty()) {
            give_up(std::move(why), ETIMEDOUT);
            return;
        }
    }
}

} // namespace cryo::coord
