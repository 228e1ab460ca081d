// SPDX-License-Identifier: Apache-2.0
//
// Which blocks of a set's members belong together. Each member's files, one after another, are a
// stream of blocks. A row takes the next block of some members (`data`), and other members keep the
// parity of these. The members take turns at keeping it, so that everybody reads his stream and
// writes his parity strictly forwards.
//
//     xor, 4 members      row 0   row 1   row 2   row 3   row 4
//     member 0            parity  d0      d1      d2      parity
//     member 1            d0      parity  d1      d2      d3
//     member 2            d0      d1      parity  d2      d3
//     member 3            d0      d1      d2      parity  d3
//
//     Rows rows(scheme, {blocks of member 0, ...});
//     while (rows.next())
//         for (uint32_t member : rows.data()) ...
#pragma once

#include "redundancy/scheme.hpp"

#include <cstdint>
#include <vector>

namespace cryo::redundancy {

class Rows
{
  public:
    Rows(const Scheme &scheme, std::vector<uint64_t> blocks);

    // False: no member has a block left. A row in which no member would give one does not exist.
    bool next();

    uint64_t number() const { return number_; }
    // In the order in which they are coded. One whose stream has ended gives zeros.
    const std::vector<uint32_t> &data() const { return data_; }
    const std::vector<uint32_t> &parity() const { return parity_; }
    // Whether the member gives a block of its stream, and not zeros.
    bool gives(uint32_t member) const { return gives_[member]; }

    uint32_t data_count() const; // of each row
    uint32_t parity_count() const;

  private:
    void place(uint64_t turn);
    bool take();

    Scheme scheme_;
    std::vector<uint64_t> left_;
    std::vector<bool> gives_;
    std::vector<uint32_t> data_;
    std::vector<uint32_t> parity_;
    uint64_t turn_ = 0;
    uint64_t number_ = 0;
};

} // namespace cryo::redundancy
