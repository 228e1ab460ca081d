// SPDX-License-Identifier: Apache-2.0
//
// Signer makes every checksum of a forged image right again, so that the code behind the checksums
// is reached. It takes any bytes: whatever is not where an image has it stays unchanged.
//
//     bytes[places[i]] ^= 1;
//     Signer(bytes).sign();
#pragma once

#include <vector>

#include "image/header.hpp"

namespace cryo::image {

class Signer
{
  public:
    explicit Signer(MutableBytes bytes) : bytes_(bytes) {}

    // From the inside out: packages, heads of segments, index, directory, header, footer.
    void sign();

    // Offsets of the records, as far as they can be followed.
    std::vector<size_t> records() const;
    size_t size() const { return bytes_.size(); }

  private:
    template <class T>
    T get(size_t at) const
    {
        return at <= bytes_.size() && sizeof(T) <= bytes_.size() - at
                   ? load_le<T>(bytes_.data() + at)
                   : T{};
    }
    void put(size_t at, Bytes value);
    Bytes range(size_t at, uint64_t length) const; // cut off at the end of the image
    RecordPrefix prefix(size_t at) const;
    void sign_record(size_t at);
    void sign_packages(size_t segment);
    void sign_part(size_t part);
    void sign_directory(size_t directory);
    void sign_footer(const std::vector<size_t> &records);

    MutableBytes bytes_;
};

} // namespace cryo::image
