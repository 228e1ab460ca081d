// SPDX-License-Identifier: Apache-2.0
#include "redundancy/encode.hpp"

#include "image/checksum.hpp"
#include "redundancy/coder.hpp"
#include "redundancy/member_files.hpp"
#include "redundancy/parity_file.hpp"
#include "redundancy/rows.hpp"

#include <algorithm>
#include <cassert>

namespace cryo::redundancy {

namespace {

class Encoding
{
  public:
    Encoding(const Description &set, const std::vector<Directory> &members, const Trust &trust);

    Result<void> run(const std::vector<Directory> &members, bool sync);

  private:
    Result<void> read_row();
    Result<void> write_row();
    Result<void> finish();

    const Description &set_;
    Rows rows_;
    Blocks row_;
    Coder coder_;
    std::vector<MemberReader> readers_;
    std::vector<ParityWriter> writers_;
    std::vector<uint64_t> sums_;
};

Encoding::Encoding(const Description &set, const std::vector<Directory> &members,
                   const Trust &trust)
    : set_(set), rows_(set.scheme, set.blocks()),
      row_(rows_.data_count() + rows_.parity_count(), set.block),
      coder_(rows_.data_count(), rows_.parity_count(), set.block)
{
    for (size_t i = 0; i < members.size(); i++)
        readers_.emplace_back(members[i], set.members[i], trust);
}

Result<void> Encoding::read_row()
{
    sums_.clear();
    for (size_t i = 0; i < rows_.data().size(); i++) {
        const uint32_t member = rows_.data()[i];
        MemberReader &reader = readers_[member];
        if (!rows_.gives(member))
            std::ranges::fill(row_[i], uint8_t(0));
        else
            static_cast<void>(reader.next(row_[i]));
        if (!reader.troubles().empty())
            return reader.troubles().front();
        sums_.push_back(image::checksum64(row_[i]));
    }
    return {};
}

Result<void> Encoding::write_row()
{
    coder_.encode(row_);
    for (size_t i = 0; i < rows_.parity().size(); i++) {
        const image::Bytes block = row_[rows_.data().size() + i];
        sums_.push_back(image::checksum64(block));
        Result<void> added = writers_[rows_.parity()[i]].add(rows_.number(), sums_, block);
        if (!added)
            return added;
        sums_.pop_back();
    }
    return {};
}

Result<void> Encoding::finish()
{
    for (MemberReader &reader : readers_) {
        reader.finish();
        if (!reader.troubles().empty())
            return reader.troubles().front();
    }
    return {};
}

Result<void> Encoding::run(const std::vector<Directory> &members, bool sync)
{
    Description own = set_;
    for (own.member = 0; own.member < members.size(); own.member++) {
        Result<ParityWriter> writer = ParityWriter::create(members[own.member], own, sync);
        if (!writer)
            return writer.error();
        writers_.push_back(std::move(*writer));
    }
    Result<void> done;
    while (done && rows_.next()) {
        done = read_row();
        if (done)
            done = write_row();
    }
    if (done)
        done = finish();
    for (size_t i = 0; done && i < writers_.size(); i++) {
        done = writers_[i].commit();
        for (size_t made = 0; !done && made < i; made++)
            static_cast<void>(members[made].remove(parity_name));
    }
    return done;
}

} // namespace

Result<void> encode(const Description &set, const std::vector<Directory> &members,
                    const Trust &trust, bool sync)
{
    if (Result<void> good = check(set, "the set to be encoded"); !good)
        return good;
    assert(members.size() == set.members.size());
    return Encoding(set, members, trust).run(members, sync);
}

} // namespace cryo::redundancy
