// SPDX-License-Identifier: Apache-2.0
#include "redundancy/coder.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

namespace cryo::redundancy {

namespace {

constexpr size_t table_bytes = 32; // of each coefficient

uint8_t *allocate(size_t bytes, size_t alignment)
{
    return static_cast<uint8_t *>(::operator new(bytes, std::align_val_t(alignment)));
}

std::vector<uint8_t> tables_of(std::span<uint8_t> coefficients, uint32_t sources, uint32_t results)
{
    std::vector<uint8_t> tables(table_bytes * sources * results);
    if (!tables.empty())
        ec_init_tables(static_cast<int>(sources), static_cast<int>(results), coefficients.data(),
                       tables.data());
    return tables;
}

} // namespace

Blocks::Blocks(size_t count, size_t size) : size_(size), memory_(allocate(count * size, alignment))
{
    assert(count > 0 && size > 0 && size % alignment == 0);
    memset(memory_.get(), 0, count * size);
    for (size_t i = 0; i < count; i++)
        pointers_.push_back(memory_.get() + i * size);
}

Coder::Coder(uint32_t data, uint32_t parity, size_t block)
    : data_(data), parity_(parity), block_(block)
{
    assert(data > 0 && parity > 0 && data + parity <= 255);
    if (parity_ == 1)
        return;
    matrix_.resize(size_t(data_ + parity_) * data_);
    gf_gen_cauchy1_matrix(matrix_.data(), static_cast<int>(data_ + parity_),
                          static_cast<int>(data_));
    encode_tables_ = tables_of(std::span(matrix_).subspan(size_t(data_) * data_), data_, parity_);
}

// One block of the row becomes the sum of all others.
void Coder::sum(const Blocks &row, uint32_t result)
{
    vectors_.clear();
    for (uint32_t i = 0; i < data_ + 1; i++) {
        if (i != result)
            vectors_.push_back(row[i].data());
    }
    if (vectors_.size() == 1) { // xor_gen wants two sources
        memcpy(row[result].data(), vectors_[0], block_);
        return;
    }
    vectors_.push_back(row[result].data());
    const int failed =
        xor_gen(static_cast<int>(vectors_.size()), static_cast<int>(block_), vectors_.data());
    assert(failed == 0);
    static_cast<void>(failed);
}

void Coder::encode(Blocks &row)
{
    assert(row.count() == data_ + parity_ && row.size() == block_);
    if (parity_ == 1) {
        sum(row, data_);
        return;
    }
    ec_encode_data(static_cast<int>(block_), static_cast<int>(data_), static_cast<int>(parity_),
                   encode_tables_.data(), row.pointers(), row.pointers() + data_);
}

bool Coder::recover(Blocks &row, const std::vector<bool> &missing)
{
    assert(row.count() == data_ + parity_ && missing.size() == row.count());
    const auto lost = std::ranges::count(missing, true);
    if (lost > static_cast<ptrdiff_t>(parity_))
        return false;
    if (lost == 0)
        return true;
    if (parity_ == 1) {
        sum(row, static_cast<uint32_t>(std::ranges::find(missing, true) - missing.begin()));
        return true;
    }
    if (recipe_.missing != missing && !prepare(missing))
        return false;
    std::vector<uint8_t *> sources;
    for (const uint32_t i : recipe_.sources)
        sources.push_back(row[i].data());
    std::vector<uint8_t *> results;
    for (const uint32_t i : recipe_.lost_data)
        results.push_back(row[i].data());
    multiply(recipe_.data_tables, sources, results);
    sources.assign(row.pointers(), row.pointers() + data_);
    results.clear();
    for (const uint32_t i : recipe_.lost_parity)
        results.push_back(row[i].data());
    multiply(recipe_.parity_tables, sources, results);
    return true;
}

void Coder::multiply(std::vector<uint8_t> &tables, std::vector<uint8_t *> &from,
                     std::vector<uint8_t *> &to) const
{
    if (!to.empty())
        ec_encode_data(static_cast<int>(block_), static_cast<int>(data_),
                       static_cast<int>(to.size()), tables.data(), from.data(), to.data());
}

bool Coder::prepare(const std::vector<bool> &missing)
{
    recipe_ = {};
    for (uint32_t i = 0; i < data_ + parity_; i++) {
        if (!missing[i] && recipe_.sources.size() < data_)
            recipe_.sources.push_back(i);
        else if (missing[i])
            (i < data_ ? recipe_.lost_data : recipe_.lost_parity).push_back(i);
    }
    if (!invert())
        return false;
    std::vector<uint8_t> coefficients;
    for (const uint32_t i : recipe_.lost_parity) {
        const auto row = matrix_.begin() + ptrdiff_t(i) * data_;
        coefficients.insert(coefficients.end(), row, row + data_);
    }
    recipe_.parity_tables =
        tables_of(coefficients, data_, static_cast<uint32_t>(recipe_.lost_parity.size()));
    recipe_.missing = missing;
    return true;
}

// What the sources are made of, the other way round.
bool Coder::invert()
{
    std::vector<uint8_t> present;
    for (const uint32_t i : recipe_.sources) {
        const auto row = matrix_.begin() + ptrdiff_t(i) * data_;
        present.insert(present.end(), row, row + data_);
    }
    std::vector<uint8_t> inverse(present.size());
    if (gf_invert_matrix(present.data(), inverse.data(), static_cast<int>(data_)) != 0)
        return false;
    std::vector<uint8_t> coefficients;
    for (const uint32_t i : recipe_.lost_data) {
        const auto row = inverse.begin() + ptrdiff_t(i) * data_;
        coefficients.insert(coefficients.end(), row, row + data_);
    }
    recipe_.data_tables =
        tables_of(coefficients, data_, static_cast<uint32_t>(recipe_.lost_data.size()));
    return true;
}

} // namespace cryo::redundancy
