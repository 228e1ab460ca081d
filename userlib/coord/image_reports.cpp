// SPDX-License-Identifier: Apache-2.0
#include "coord/image_reports.hpp"

#include <algorithm>
#include <utility>

namespace cryo::coord {

ImageReports::ImageReports(std::map<uint32_t, RankPlace> ranks) : ranks_(std::move(ranks))
{
    for (const auto &[rank, place] : ranks_)
        missing_[place.member]++;
}

void ImageReports::cut(uint32_t rank)
{
    cut_.insert(rank);
    growth_.try_emplace(rank, Growth{0, Clock::now(), Clock::now()});
}

void ImageReports::grow(uint32_t rank, uint64_t bytes)
{
    const auto now = Clock::now();
    Growth &image = growth_.try_emplace(rank, Growth{bytes, now, now}).first->second;
    if (std::exchange(image.bytes, bytes) != bytes)
        image.since = now;
}

void ImageReports::add(SnapshotImage image, uint64_t stopped_ns)
{
    const uint32_t rank = image.rank;
    const auto at = ranks_.find(rank);
    if (images_.insert_or_assign(rank, std::move(image)).second && at != ranks_.end()) {
        const auto left = missing_.find(at->second.member);
        if (left != missing_.end() && --left->second == 0)
            missing_.erase(left);
    }
    longest_stop_ = std::max(longest_stop_, stopped_ns);
}

bool ImageReports::on_node(uint32_t rank)
{
    on_nodes_.insert(rank);
    return on_nodes_.size() == ranks_.size();
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
    const auto at = ranks_.find(rank);
    return at != ranks_.end() && at->second.member == member;
}

Message ImageReports::message() const
{
    return Message(Type::images, {{"done", images_.size()},
                                  {"cut", std::max(cut_.size(), images_.size())},
                                  {"of", ranks_.size()}});
}

std::vector<SnapshotImage> ImageReports::images() const
{
    std::vector<SnapshotImage> images;
    for (const auto &[rank, image] : images_)
        images.push_back(image);
    return images;
}

std::set<int> ImageReports::needs() const
{
    std::set<int> needs;
    for (const auto &[rank, image] : images_)
        needs.insert(image.needs.begin(), image.needs.end());
    return needs;
}

uint64_t ImageReports::bytes() const
{
    uint64_t bytes = 0;
    for (const auto &[rank, image] : images_)
        bytes += image.bytes;
    return bytes;
}

} // namespace cryo::coord
