// SPDX-License-Identifier: Apache-2.0
#include "signer.hpp"

#include <algorithm>

#include "image/tables.hpp"

namespace cryo::image {

namespace {

constexpr size_t kDigest = 16;

} // namespace

void Signer::put(size_t at, Bytes value)
{
    if (at <= bytes_.size() && value.size() <= bytes_.size() - at)
        std::ranges::copy(value, bytes_.begin() + long(at));
}

Bytes Signer::range(size_t at, uint64_t length) const
{
    if (at > bytes_.size())
        return {};
    return Bytes(bytes_).subspan(at, size_t(std::min<uint64_t>(length, bytes_.size() - at)));
}

RecordPrefix Signer::prefix(size_t at) const
{
    if (at > bytes_.size() || bytes_.size() - at < kPrefixSize)
        return {};
    return RecordPrefix::decode(Bytes(bytes_).subspan(at).first<kPrefixSize>());
}

std::vector<size_t> Signer::records() const
{
    std::vector<size_t> out;
    for (size_t at = kHeaderSize; at < bytes_.size() && bytes_.size() - at >= kPrefixSize;) {
        out.push_back(at);
        uint64_t length = prefix(at).length;
        if (length > bytes_.size() - at - kPrefixSize)
            break;
        at += kPrefixSize + length;
    }
    return out;
}

// A record's checksum covers its payload; a segment's covers its head.
void Signer::sign_record(size_t at)
{
    RecordPrefix p = prefix(at);
    uint64_t covered =
        p.type == RecordType::segment ? get<uint32_t>(at + kPrefixSize + 24) : p.length;
    put(at, p.encode(range(at + kPrefixSize, covered)));
}

// Digests of the packages, in the table of their segment.
void Signer::sign_packages(size_t segment)
{
    size_t payload = segment + kPrefixSize;
    uint32_t count = get<uint32_t>(payload + 16);
    uint64_t end = payload + get<uint32_t>(payload + 24);
    for (uint32_t i = 0; i < count && i < 256; i++) {
        size_t entry = payload + 32 + size_t(i) * 24;
        uint32_t stored = get<uint32_t>(entry);
        uint64_t start = package_start(end, static_cast<Codec>(get<uint8_t>(entry + 4)));
        put(entry + 8, checksum128(range(start, stored)).bytes());
        end = start + stored;
    }
}

// Digests of the packages, in a part of the index.
void Signer::sign_part(size_t part)
{
    size_t payload = part + kPrefixSize;
    uint64_t first = payload + 24 + uint64_t(get<uint32_t>(payload + 8)) * 16;
    uint32_t count = get<uint32_t>(payload + 12);
    for (uint32_t i = 0; i < count && i < 4096; i++) {
        uint64_t entry = first + uint64_t(i) * 32;
        if (entry > bytes_.size())
            return;
        put(entry + 16, checksum128(range(get<uint64_t>(entry), get<uint32_t>(entry + 8))).bytes());
    }
}

void Signer::sign_directory(size_t directory)
{
    size_t payload = directory + kPrefixSize;
    uint32_t parts = get<uint32_t>(payload);
    for (uint32_t i = 0; i < parts && i < 4096; i++) {
        size_t entry = payload + 8 + size_t(i) * 80;
        size_t part = get<uint64_t>(entry);
        if (part > bytes_.size())
            continue;
        put(entry + 16, checksum128(range(part + kPrefixSize, prefix(part).length)).bytes());
    }
}

void Signer::sign_footer(const std::vector<size_t> &records)
{
    size_t footer = bytes_.size() - kFooterSize;
    Hasher covered;
    covered.add(range(0, kHeaderSize));
    for (size_t at : records)
        if (at < footer && prefix(at).type != RecordType::segment)
            covered.add(
                range(at, std::min<uint64_t>(kPrefixSize + prefix(at).length, footer - at)));
    put(bytes_.size() - kDigest,
        Footer::expected_checksum(covered, range(footer, kFooterSize)).bytes());
    sign_record(footer);
}

void Signer::sign()
{
    if (bytes_.size() < kHeaderSize + kFooterSize)
        return;
    put(kHeaderSize - kDigest, checksum128(range(0, kHeaderSize - kDigest)).bytes());
    std::vector<size_t> all = records();
    for (size_t at : all)
        if (prefix(at).type == RecordType::segment)
            sign_packages(at);
        else if (prefix(at).type == RecordType::index_part)
            sign_part(at);
    for (size_t at : all)
        if (prefix(at).type != RecordType::directory)
            sign_record(at);
    for (size_t at : all)
        if (prefix(at).type == RecordType::directory) {
            sign_directory(at);
            sign_record(at);
        }
    sign_footer(all);
}

} // namespace cryo::image
