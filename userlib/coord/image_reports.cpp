// SPDX-License-Identifier: Apache-2.0
#include "coord/image_reports.hpp"

#include <algorithm>
#include <utility>

namespace cryo::coord {

ImageReports::ImageReports(std::shared_ptr<const Ranks> ranks, const Members &members)
    : ranks_(std::move(ranks)), members_(members),
      all_(ranks_->empty() ? 0 : ranks_->rbegin()->first + size_t(1))
{
    for (const auto &[rank, place] : *ranks_) {
        all_[rank].member = place.member;
        all_[rank].state = known;
        missing_.resize(std::max<size_t>(missing_.size(), place.member + size_t(1)));
        missing_[place.member]++;
    }
}

std::vector<uint32_t> ImageReports::members_that_miss() const
{
    std::vector<uint32_t> members;
    for (uint32_t member = 0; member < missing_.size(); member++) {
        if (missing_[member] != 0)
            members.push_back(member);
    }
    return members;
}

bool ImageReports::set(uint32_t rank, State state)
{
    if (!has_rank(rank) || is(rank, state))
        return false;
    all_[rank].state |= state;
    return true;
}

void ImageReports::begin(uint32_t rank, uint64_t bytes)
{
    if (set(rank, begun)) {
        begun_++;
        growth_.try_emplace(rank, Growth{bytes, Clock::now(), Clock::now()});
    }
}

void ImageReports::cut(uint32_t rank)
{
    if (!set(rank, frozen))
        return;
    cuts_++;
    if (!has_image(rank))
        begin(rank, 0);
}

void ImageReports::grow(uint32_t rank, uint64_t bytes)
{
    if (has_image(rank))
        return;
    begin(rank, bytes);
    const auto image = growth_.find(rank);
    if (image != growth_.end() && std::exchange(image->second.bytes, bytes) != bytes)
        image->second.since = Clock::now();
}

void ImageReports::add(uint32_t rank, Image image, uint64_t stopped_ns)
{
    if (!set(rank, there))
        return;
    images_++;
    growth_.erase(rank);
    all_[rank].bytes = image.bytes;
    bytes_ += image.bytes;
    if (image.is_described)
        set(rank, described);
    if (!image.checksum.empty())
        checksums_[rank] = std::move(image.checksum);
    if (!image.needs.empty()) {
        needs_.insert(image.needs.begin(), image.needs.end());
        deltas_[rank] = std::move(image.needs);
    }
    missing_[all_[rank].member]--;
    longest_stop_ = std::max(longest_stop_, stopped_ns);
}

bool ImageReports::on_node(uint32_t rank)
{
    on_nodes_ += set(rank, near) ? 1 : 0;
    return on_nodes_ == ranks_->size();
}

void ImageReports::count_from_now()
{
    for (auto &[rank, image] : growth_)
        image.since = Clock::now();
}

void ImageReports::excuse(Clock::duration still)
{
    for (auto &[rank, image] : growth_) {
        image.begun += still;
        image.since += still;
    }
}

bool ImageReports::is_of(uint32_t member, uint32_t rank) const
{
    return has_rank(rank) && all_[rank].member == member;
}

Message ImageReports::message() const
{
    return Message(Type::images,
                   {{"done", images_}, {"cut", std::max(cuts_, images_)}, {"of", ranks_->size()}});
}

std::vector<SnapshotImage> ImageReports::images() const
{
    std::vector<SnapshotImage> images;
    images.reserve(images_);
    auto checksum = checksums_.begin();
    auto delta = deltas_.begin();
    for (const auto &[rank, place] : *ranks_) {
        if (!has_image(rank))
            continue;
        SnapshotImage &image = images.emplace_back();
        image.rank = rank;
        image.pid = place.pid;
        const auto gone = gone_.find(place.member);
        image.node = gone != gone_.end() ? gone->second : members_.name(place.member);
        image.file = image_name(place.pid);
        image.bytes = all_[rank].bytes;
        image.is_described = is(rank, described);
        if (checksum != checksums_.end() && checksum->first == rank)
            image.checksum = (checksum++)->second;
        if (delta != deltas_.end() && delta->first == rank)
            image.needs = (delta++)->second;
    }
    return images;
}

} // namespace cryo::coord
