// SPDX-License-Identifier: Apache-2.0
//
// The parity of a row of blocks, and blocks from the others of their row. All arithmetic is
// ISA-L's: plain parity where one block may be missing, else a Cauchy matrix over GF(2^8), any
// square part of which can be inverted.
//
//     Coder coder(3, 1, 65536);
//     Blocks row(4, 65536);
//     coder.encode(row);                       // blocks 0 to 2 are data, 3 becomes their parity
//     bool good = coder.recover(row, {false, true, false, false});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace cryo::redundancy {

// Blocks in one piece of memory, aligned as ISA-L's vector instructions want it.
class Blocks
{
  public:
    static constexpr size_t alignment = 64;

    Blocks(size_t count, size_t size); // filled with zeros; a size is a multiple of the alignment

    size_t count() const { return pointers_.size(); }
    size_t size() const { return size_; }
    std::span<uint8_t> operator[](size_t i) const { return {pointers_[i], size_}; }
    uint8_t **pointers() { return pointers_.data(); }

  private:
    struct Free {
        void operator()(uint8_t *memory) const
        {
            ::operator delete(memory, std::align_val_t(alignment));
        }
    };

    size_t size_;
    std::unique_ptr<uint8_t, Free> memory_;
    std::vector<uint8_t *> pointers_;
};

class Coder
{
  public:
    Coder(uint32_t data, uint32_t parity, size_t block);

    // A row has its data blocks first, then those of parity.
    void encode(Blocks &row);
    // Makes the blocks that are missing from the others; false: too many are missing.
    bool recover(Blocks &row, const std::vector<bool> &missing);

  private:
    struct Recipe {
        std::vector<bool> missing;
        std::vector<uint32_t> sources;      // blocks that are read
        std::vector<uint32_t> lost_data;    // blocks that are made of them
        std::vector<uint32_t> lost_parity;  // and then of all data
        std::vector<uint8_t> data_tables;   // what ec_encode_data takes
        std::vector<uint8_t> parity_tables; // the same
    };

    void sum(const Blocks &row, uint32_t result);
    bool prepare(const std::vector<bool> &missing);
    bool invert();
    void multiply(std::vector<uint8_t> &tables, std::vector<uint8_t *> &from,
                  std::vector<uint8_t *> &to) const;

    uint32_t data_;
    uint32_t parity_;
    size_t block_;
    std::vector<uint8_t> matrix_; // (data + parity) rows of `data` coefficients
    std::vector<uint8_t> encode_tables_;
    Recipe recipe_; // the last one: a set lacks the same members for many rows
    std::vector<void *> vectors_;
};

} // namespace cryo::redundancy
