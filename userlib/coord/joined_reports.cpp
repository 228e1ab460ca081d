// SPDX-License-Identifier: Apache-2.0
#include "coord/joined_reports.hpp"

#include "coord/loop.hpp"
#include "coord/patience.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

// In the longest silence of a daemon: those of which a tree has as many as levels must not make it
// seem silent.
constexpr int waits_in_silence = 20;
constexpr size_t most_looks = 16; // under way

} // namespace

std::vector<uint64_t> runs_of(const std::set<uint32_t> &numbers)
{
    std::vector<uint64_t> runs;
    for (const uint32_t number : numbers) {
        if (runs.empty() || runs.back() + 1 != number)
            runs.insert(runs.end(), {number, number});
        else
            runs.back() = number;
    }
    return runs;
}

bool each_of(const json &runs, uint64_t most, const std::function<bool(uint32_t)> &call)
{
    for (size_t i = 0; i + 1 < runs.size(); i += 2) {
        const uint64_t first = runs[i].get<uint64_t>();
        const uint64_t last = runs[i + 1].get<uint64_t>();
        if (last < first || last - first >= most)
            return false;
        most -= last - first + 1;
        for (uint64_t number = first; number <= last; number++) {
            if (!call(static_cast<uint32_t>(number)))
                return false;
        }
    }
    return runs.size() % 2 == 0;
}

std::optional<Deltas> deltas_of(const json &groups, uint64_t most)
{
    Deltas deltas;
    for (const json &one : groups) {
        const auto needs = one.at("needs").get<std::vector<int>>();
        const bool good =
            !needs.empty() && each_of(one.at("ranks"), most - deltas.size(), [&](uint32_t rank) {
                return deltas.try_emplace(rank, needs).second;
            });
        if (!good)
            return {};
    }
    return deltas;
}

JoinedReports::~JoinedReports()
{
    loop_.call_off(timer_);
}

void JoinedReports::place(uint32_t index, size_t nodes, size_t ranks)
{
    index_ = index;
    nodes_ = nodes;
    ranks_ = ranks;
    checkpoint_ = 0;
    begin(1);
    alive_.clear();
    alive_sent_.clear();
    growing_.clear();
}

// What is left of an earlier one concerns nobody any more; false: this is of an earlier one.
bool JoinedReports::begin(uint64_t checkpoint)
{
    if (checkpoint <= checkpoint_)
        return checkpoint == checkpoint_;
    checkpoint_ = checkpoint;
    prepared_.clear();
    cut_.clear();
    local_.clear();
    images_.clear();
    total_ = 0;
    sent_ = {};
    stopped_ns_ = 0;
    notices_ = {};
    return true;
}

bool JoinedReports::add(const Message &own)
{
    const json &fields = own.fields;
    if (fields.contains("error") ||
        (fields.contains("checkpoint") && !begin(fields.at("checkpoint"))))
        return false;
    switch (own.type) {
    case Type::prepared:
        prepared_.insert(index_);
        break;
    case Type::cut:
        cut_.insert(fields.at("rank").get<uint32_t>());
        break;
    case Type::local:
        local_.insert(fields.at("rank").get<uint32_t>());
        break;
    case Type::image: {
        const uint32_t rank = fields.at("rank");
        images_[rank] = {fields.value("bytes", uint64_t(0)), fields.value("checksum", ""),
                         fields.value("needs", std::vector<int>())};
        stopped_ns_ = std::max(stopped_ns_, fields.value("stopped_ns", uint64_t(0)));
        for (const json &notice : fields.value("notices", json::array()))
            notices_.add(fmt::format("rank {}: {}", rank, notice.get<std::string>()));
        break;
    }
    case Type::alive:
        alive_[look_].insert(index_);
        for (const json &one : fields.at("images"))
            growing_[one.at("rank").get<uint32_t>()] = one.at("bytes");
        break;
    default:
        return false;
    }
    soon();
    return true;
}

bool JoinedReports::take(const Message &joined)
{
    const json &fields = joined.fields;
    const auto into = [&](const char *name, size_t most, std::set<uint32_t> &all) {
        return !fields.contains(name) || each_of(fields.at(name), most, [&](uint32_t one) {
            all.insert(one);
            return true;
        });
    };
    bool good = true;
    if (fields.contains("look")) {
        good = into("alive", nodes_, alive_[fields.at("look").get<uint64_t>()]);
        if (alive_.size() > most_looks)
            alive_.erase(alive_.begin());
    }
    std::set<uint32_t> growing;
    good = good && into("growing", ranks_, growing);
    const json sizes = fields.value("sizes", json::array());
    good = good && sizes.size() == growing.size();
    size_t at = 0;
    for (auto one = growing.begin(); good && one != growing.end(); ++one)
        growing_[*one] = sizes[at++];
    if (good && fields.contains("checkpoint") && begin(fields.at("checkpoint"))) {
        std::set<uint32_t> images;
        const json bytes = fields.value("bytes", json::array());
        const json checksums = fields.value("checksums", json::array());
        good = into("prepared", nodes_, prepared_) && into("cut", ranks_, cut_) &&
               into("local", ranks_, local_) && into("images", ranks_, images) &&
               bytes.size() == (fields.contains("total") ? 0 : images.size()) &&
               (checksums.empty() || checksums.size() == images.size());
        at = 0;
        for (auto one = images.begin(); good && one != images.end(); ++one, at++)
            images_[*one] = {bytes.empty() ? 0 : bytes[at].get<uint64_t>(),
                             checksums.empty() ? "" : checksums[at].get<std::string>(),
                             {}};
        total_ += fields.value("total", uint64_t(0));
        const std::optional<Deltas> deltas =
            deltas_of(fields.value("deltas", json::array()), ranks_);
        good = good && deltas && std::ranges::all_of(*deltas, [&](const auto &one) {
                   return images.contains(one.first);
               });
        if (good) {
            for (const auto &[rank, needs] : *deltas)
                images_[rank].needs = needs;
        }
        stopped_ns_ = std::max(stopped_ns_, fields.value("stopped_ns", uint64_t(0)));
        for (const json &notice : fields.value("notices", json::array()))
            notices_.add(notice);
    }
    if (good)
        soon();
    return good;
}

// Ranks that have a frozen copy will have an image soon, which goes up with it.
bool JoinedReports::is_whole() const
{
    const auto is = [](size_t now, size_t before, size_t all) {
        return now != 0 && now + before >= all;
    };
    return is(prepared_.size(), sent_.prepared, nodes_) || is(local_.size(), sent_.local, ranks_) ||
           is(images_.size(), sent_.images, ranks_) ||
           std::ranges::any_of(alive_, [&](const auto &one) {
               const auto sent = alive_sent_.find(one.first);
               return is(one.second.size(), sent != alive_sent_.end() ? sent->second : 0, nodes_);
           });
}

void JoinedReports::soon()
{
    if (is_whole()) {
        flush();
    } else if (timer_ == 0) {
        timer_ = loop_.after(longest_silence().count() / waits_in_silence, [this] {
            timer_ = 0;
            flush();
        });
    }
}

Message JoinedReports::alive(uint64_t look, const std::set<uint32_t> &nodes)
{
    Message message(Type::reports, {{"look", look}, {"alive", runs_of(nodes)}});
    std::set<uint32_t> ranks;
    json sizes = json::array();
    for (const auto &[rank, bytes] : std::exchange(growing_, {})) {
        ranks.insert(rank);
        sizes.push_back(bytes);
    }
    if (!ranks.empty())
        message.fields.update({{"growing", runs_of(ranks)}, {"sizes", sizes}});
    return message;
}

// Most deltas are based on the same snapshots.
void JoinedReports::add_images(json &fields)
{
    std::set<uint32_t> ranks;
    std::map<std::vector<int>, std::set<uint32_t>> deltas;
    json bytes = json::array();
    json checksums = json::array();
    bool any_checksum = false;
    for (const auto &[rank, image] : images_) {
        ranks.insert(ranks.end(), rank);
        if (sums_)
            total_ += image.bytes;
        else
            bytes.push_back(image.bytes);
        checksums.push_back(image.checksum);
        any_checksum = any_checksum || !image.checksum.empty();
        if (!image.needs.empty())
            deltas[image.needs].insert(rank);
    }
    fields.update({{"images", runs_of(ranks)}, {"stopped_ns", stopped_ns_}});
    if (sums_)
        fields["total"] = std::exchange(total_, 0);
    else
        fields["bytes"] = std::move(bytes);
    if (any_checksum)
        fields["checksums"] = checksums;
    for (const auto &[needs, all] : deltas)
        fields["deltas"].push_back({{"ranks", runs_of(all)}, {"needs", needs}});
    if (std::vector<std::string> notices = std::exchange(notices_, {}).all(); !notices.empty())
        fields["notices"] = std::move(notices);
    images_.clear();
}

void JoinedReports::flush()
{
    loop_.call_off(std::exchange(timer_, 0));
    for (const auto &[look, nodes] : std::exchange(alive_, {})) {
        alive_sent_[look] += nodes.size();
        send_(alive(look, nodes));
    }
    while (alive_sent_.size() > most_looks)
        alive_sent_.erase(alive_sent_.begin());
    sent_.prepared += prepared_.size();
    sent_.local += local_.size();
    sent_.images += images_.size();
    if (prepared_.empty() && cut_.empty() && local_.empty() && images_.empty())
        return;
    Message message(Type::reports, {{"checkpoint", checkpoint_}});
    json &fields = message.fields;
    if (!prepared_.empty())
        fields["prepared"] = runs_of(std::exchange(prepared_, {}));
    if (!cut_.empty())
        fields["cut"] = runs_of(std::exchange(cut_, {}));
    if (!local_.empty())
        fields["local"] = runs_of(std::exchange(local_, {}));
    if (!images_.empty())
        add_images(fields);
    send_(message);
}

} // namespace cryo::coord
