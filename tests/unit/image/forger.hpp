// SPDX-License-Identifier: Apache-2.0
//
// Images with forged contents:
//
//     Forger f(slurp(path));
//     f.put(f.find(RecordType::segment) + 40, uint32_t(7));
//     f.sign_record(f.find(RecordType::segment));
//     f.sign_above();
//     f.expect_refused(dir, "7 packages");
#pragma once

#include "sample.hpp"

namespace cryo::image {

// Changes numbers, and makes every checksum above them right again.
class Forger
{
  public:
    explicit Forger(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}

    // Offset of the n-th record of a type.
    size_t find(RecordType type, size_t n = 0) const
    {
        for (size_t at = kHeaderSize; at < bytes_.size();) {
            RecordPrefix p = prefix(at);
            if (p.type == type && n-- == 0)
                return at;
            at += kPrefixSize + p.length;
        }
        ADD_FAILURE() << "no such record";
        return 0;
    }
    RecordPrefix prefix(size_t at) const
    {
        return RecordPrefix::decode(Bytes(bytes_).subspan(at).first<kPrefixSize>());
    }
    template <class T>
    void put(size_t at, T value)
    {
        store_le(bytes_.data() + at, value);
    }
    template <class T>
    T get(size_t at) const
    {
        return load_le<T>(bytes_.data() + at);
    }

    // The checksum in a record's prefix; for a segment, it covers the head.
    void sign_record(size_t at)
    {
        RecordPrefix p = prefix(at);
        size_t covered = p.length;
        if (p.type == RecordType::segment)
            covered = load_le<uint32_t>(bytes_.data() + at + kPrefixSize + 24);
        covered = std::min(covered, bytes_.size() - at - kPrefixSize);
        auto encoded = p.encode(Bytes(bytes_).subspan(at + kPrefixSize, covered));
        std::ranges::copy(encoded, bytes_.begin() + long(at));
    }
    void sign_header()
    {
        Digest d = checksum128(Bytes(bytes_).first(kHeaderSize - 16));
        std::ranges::copy(d.bytes(), bytes_.begin() + kHeaderSize - 16);
    }
    // Signs the directory entry of each index part, the directory, and the footer.
    void sign_above()
    {
        size_t directory = find(RecordType::directory);
        size_t parts = get<uint32_t>(directory + kPrefixSize);
        for (size_t i = 0; i < parts; i++) {
            size_t entry = directory + kPrefixSize + 8 + i * 80;
            if (entry + 80 > bytes_.size())
                break;
            size_t part = get<uint64_t>(entry);
            if (part > bytes_.size() - kPrefixSize)
                continue;
            sign_record(part);
            Digest d = checksum128(Bytes(bytes_).subspan(
                part + kPrefixSize,
                std::min<size_t>(prefix(part).length, bytes_.size() - part - kPrefixSize)));
            std::ranges::copy(d.bytes(), bytes_.begin() + long(entry) + 16);
        }
        sign_record(directory);
        Hasher covered;
        covered.add(Bytes(bytes_).first(kHeaderSize));
        size_t footer = bytes_.size() - kFooterSize;
        for (size_t at = kHeaderSize; at < footer;) {
            RecordPrefix p = prefix(at);
            size_t size = std::min<size_t>(kPrefixSize + p.length, footer - at);
            if (p.type != RecordType::segment)
                covered.add(Bytes(bytes_).subspan(at, size));
            at += size;
        }
        Digest d = Footer::expected_checksum(covered, Bytes(bytes_).subspan(footer));
        std::ranges::copy(d.bytes(), bytes_.end() - 16);
        sign_record(footer);
    }

    void save(const std::string &path) const { spew(path, bytes_); }

    void expect_refused(const Scratch &dir, const std::string &what)
    {
        std::string path = dir / "forged";
        spew(path, bytes_);
        for (Access access : {Access::pread, Access::map}) {
            auto image = Image::open(path, {.access = access});
            if (image) {
                EXPECT_FALSE((*image)->verify().empty()) << what;
                to_nothing(**image);
            }
        }
    }

  private:
    // Whatever the result, reading must stay within bounds.
    static void to_nothing(Image &image)
    {
        std::vector<uint8_t> pages(8 * kPageSize);
        for (uint32_t object = 0; object < 3; object++)
            for (uint64_t page : {0, 5, 998}) {
                (void)image.read_pages(object, page, pages);
                (void)image.mappable(object, page);
            }
    }

    std::vector<uint8_t> bytes_;
};

} // namespace cryo::image
