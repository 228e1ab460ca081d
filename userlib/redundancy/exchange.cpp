// SPDX-License-Identifier: Apache-2.0
#include "redundancy/exchange.hpp"

#include "image/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::redundancy {

Exchange::Exchange(const Description &set, const Directory &directory, const Trust &trust,
                   bool sync, Post &post)
    : set_(set), directory_(directory), sync_(sync), post_(post), own_(set.member),
      to_send_(set.scheme, set.blocks()), to_code_(set.scheme, set.blocks()), out_(1, set.block),
      row_(to_code_.data_count() + to_code_.parity_count(), set.block),
      coder_(to_code_.data_count(), to_code_.parity_count(), set.block),
      reader_(directory, set.members[set.member], trust), others_(set.members.size())
{}

Result<void> Exchange::begin()
{
    Result<ParityWriter> writer = ParityWriter::create(directory_, set_, sync_);
    if (!writer)
        return writer.error();
    writer_.emplace(std::move(*writer));
    sent_all_ = !next_to_send();
    coded_all_ = !next_to_code();
    return go_on();
}

// The next row to which this member gives a block, which is read.
bool Exchange::next_to_send()
{
    while (to_send_.next()) {
        const std::vector<uint32_t> &data = to_send_.data();
        if (std::ranges::find(data, own_) != data.end() && to_send_.gives(own_)) {
            static_cast<void>(reader_.next(out_[0]));
            return true;
        }
    }
    reader_.finish();
    return false;
}

// The next row whose parity this member keeps.
bool Exchange::next_to_code()
{
    while (to_code_.next()) {
        const std::vector<uint32_t> &parity = to_code_.parity();
        if (std::ranges::find(parity, own_) != parity.end())
            return true;
    }
    return false;
}

bool Exchange::may_send() const
{
    return std::ranges::all_of(to_send_.parity(),
                               [&](uint32_t member) { return others_[member].leave > 0; });
}

Result<bool> Exchange::send_next()
{
    if (!reader_.troubles().empty())
        return reader_.troubles().front();
    if (sent_all_ || !may_send())
        return false;
    const uint64_t checksum = image::checksum64(out_[0]);
    for (const uint32_t member : to_send_.parity()) {
        others_[member].leave--;
        post_.send_block(member, out_[0], checksum);
    }
    sent_all_ = !next_to_send();
    return true;
}

bool Exchange::has_come() const
{
    return std::ranges::all_of(to_code_.data(), [&](uint32_t member) {
        return !to_code_.gives(member) || !others_[member].blocks.empty();
    });
}

void Exchange::use_up()
{
    for (size_t i = 0; i < to_code_.data().size(); i++) {
        const uint32_t member = to_code_.data()[i];
        if (!to_code_.gives(member)) {
            std::ranges::fill(row_[i], uint8_t(0));
            continue;
        }
        std::ranges::copy(others_[member].blocks.front(), row_[i].begin());
        others_[member].blocks.pop_front();
        post_.send_leave(member, 1);
    }
}

Result<bool> Exchange::code_next()
{
    if (coded_all_ || !has_come())
        return false;
    use_up();
    const std::vector<uint32_t> &parity = to_code_.parity();
    const size_t data = to_code_.data().size();
    const size_t own = data + static_cast<size_t>(std::ranges::find(parity, own_) - parity.begin());
    std::vector<bool> missing(row_.count());
    missing[own] = true; // of the row's parity, others keep the rest
    coder_.recover(row_, missing);
    std::vector<uint64_t> sums;
    for (size_t i = 0; i < data; i++)
        sums.push_back(image::checksum64(row_[i]));
    sums.push_back(image::checksum64(row_[own]));
    if (Result<void> added = writer_->add(to_code_.number(), sums, row_[own]); !added)
        return added.error();
    coded_all_ = !next_to_code();
    for (uint32_t i = 0; coded_all_ && i < others_.size(); i++) {
        if (!others_[i].blocks.empty())
            return broken(i, "has sent a block too many");
    }
    return true;
}

// False: nothing can be sent or coded now.
Result<bool> Exchange::step()
{
    Result<bool> sent = send_next();
    if (!sent)
        return sent;
    const Result<bool> coded = code_next();
    return coded ? Result<bool>(*sent || *coded) : coded;
}

Result<void> Exchange::go_on()
{
    if (!writer_) // it has not begun
        return {};
    while (!failed_) {
        const Result<bool> done = step();
        if (!done)
            failed_ = done.error();
        else if (!*done)
            return {};
    }
    return *failed_;
}

Result<void> Exchange::take_block(uint32_t from, image::Bytes block, uint64_t checksum)
{
    if (from >= others_.size() || from == own_)
        return broken(from, "is no other member of the set");
    if (block.size() != set_.block)
        return broken(from, "has sent a block of another size");
    if (coded_all_)
        return broken(from, "has sent a block too many");
    Other &other = others_[from];
    if (other.blocks.size() >= window)
        return broken(from, "has sent more blocks than it may");
    if (image::checksum64(block) != checksum)
        return Error(EBADMSG, fmt::format("{}: a block of {} came damaged",
                                          directory_.path(parity_name), set_.members[from].node));
    other.blocks.emplace_back(block.begin(), block.end());
    return go_on();
}

Result<void> Exchange::take_leave(uint32_t from, uint32_t blocks)
{
    if (from >= others_.size() || from == own_)
        return broken(from, "is no other member of the set");
    Other &other = others_[from];
    if (blocks == 0 || blocks > window - other.leave)
        return broken(from, "has taken more blocks than it got");
    other.leave += blocks;
    return go_on();
}

bool Exchange::is_complete() const
{
    const auto is_even = [](const Other &one) { return one.blocks.empty() && one.leave == window; };
    return !failed_ && sent_all_ && coded_all_ && reader_.troubles().empty() &&
           std::ranges::all_of(others_, is_even);
}

Result<void> Exchange::commit()
{
    if (failed_)
        return *failed_;
    if (!is_complete())
        return Error(EPROTO, directory_.path(parity_name) + ": is not complete");
    return writer_->commit();
}

Error Exchange::broken(uint32_t from, const char *what) const
{
    return {EPROTO, fmt::format("{}: {} {}", directory_.path(parity_name),
                                from < set_.members.size() ? set_.members[from].node
                                                           : fmt::format("member {}", from),
                                what)};
}

} // namespace cryo::redundancy
