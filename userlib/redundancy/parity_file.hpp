// SPDX-License-Identifier: Apache-2.0
//
// A member's parity, with what is needed to use it:
//
//     bytes 0-7     "CRYOSET1"
//     bytes 8-11    length of the description
//     bytes 12-15   zero
//     bytes 16-31   XXH3-128 of bytes 0 to 15 and the description
//     description   JSON (description.hpp)
//     records       one of each row whose parity this member keeps:
//         block     parity
//         8         number of the row
//         8 each    XXH3-64 of each data block of the row, in the order of the row, then of the
//         parity 8         XXH3-64 of the set's id and of the numbers above
//
// Numbers are little-endian. A block that is not what a record says is as good as lost: so every
// block that a rebuild uses was checked, and what it makes of them is.
//
//     Result<ParityWriter> writer = ParityWriter::create(directory, set, sync);
//     Result<void> taken = writer->add(row, sums, block);
//     Result<void> done = writer->commit();            // else nothing is there
//
//     Result<ParityReader> reader = ParityReader::open(directory, trust);
//     reader->description();
//     bool good = reader->next(rows, block, sums);     // records come in the order of their rows
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "image/format.hpp"
#include "redundancy/description.hpp"
#include "redundancy/rows.hpp"

#include <optional>
#include <vector>

namespace cryo::redundancy {

class ParityWriter
{
  public:
    // The directory must outlive it.
    static Result<ParityWriter> create(const Directory &directory, const Description &set,
                                       bool sync);
    ParityWriter(ParityWriter &&) = default;
    ParityWriter(const ParityWriter &) = delete;
    ParityWriter &operator=(const ParityWriter &) = delete;
    ParityWriter &operator=(ParityWriter &&) = delete;
    ~ParityWriter();

    // `sums` are those of the row's data, and then of this block.
    Result<void> add(uint64_t row, const std::vector<uint64_t> &sums, image::Bytes block);
    Result<void> commit();

  private:
    ParityWriter(const Directory &directory, std::string id, Fd fd, bool sync)
        : directory_(directory), id_(std::move(id)), fd_(std::move(fd)), sync_(sync)
    {}

    const Directory &directory_;
    std::string id_;
    Fd fd_; // until it is committed
    bool sync_;
    std::vector<uint8_t> tail_;
};

class ParityReader
{
  public:
    static Result<ParityReader> open(const Directory &directory, const Trust &trust);

    const Description &description() const { return set_; }

    // False: what is there is no such record, or nothing is. Later ones may be good.
    bool next(uint64_t row, image::MutableBytes block, std::vector<uint64_t> &sums);
    void finish(); // no record may follow
    // The first thing that was wrong.
    const std::optional<Error> &trouble() const { return trouble_; }

  private:
    ParityReader(std::string path, Description set, Fd fd)
        : path_(std::move(path)), set_(std::move(set)), fd_(std::move(fd))
    {}
    bool fail(const std::string &what);

    std::string path_;
    Description set_;
    Fd fd_;
    std::vector<uint8_t> tail_;
    std::optional<Error> trouble_;
};

// The description in the first bytes of such a file.
Result<Description> read_parity_head(image::Bytes bytes, const std::string &where);

} // namespace cryo::redundancy
