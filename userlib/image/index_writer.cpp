// SPDX-License-Identifier: Apache-2.0
#include "image/index_writer.hpp"

#include <cerrno>

namespace cryo::image {

Result<void> IndexWriter::write_part(OutputBuffer &out, Packer &packer)
{
    auto payload = next_.take();
    if (!payload)
        return payload.error();
    std::vector<uint8_t> packed;
    const Bytes shorter = pack_index_part(packer, *payload, packed);
    const bool plain = shorter.empty();
    const Bytes stored = plain ? Bytes(*payload) : shorter;
    if (auto ok = note_part(out.offset(), stored, *payload); !ok)
        return ok;
    RecordPrefix prefix{.type = RecordType::index_part, .flags = kRequired};
    if (!plain) {
        prefix.version = kPackedIndexVersion;
        prefix.flags |= kRequiredVersion;
    }
    return out.append_record(prefix, stored);
}

Result<std::vector<uint8_t>> IndexWriter::take_part(uint64_t offset)
{
    auto payload = next_.take();
    if (!payload)
        return payload.error();
    if (auto ok = note_part(offset, *payload, *payload); !ok)
        return ok.error();
    return payload;
}

// Adds the directory's entry for the index part at this offset, given as stored and unpacked.
Result<void> IndexWriter::note_part(uint64_t offset, Bytes stored, Bytes payload)
{
    std::vector<uint8_t> none;
    auto part = IndexPart::parse(payload, 1, none);
    if (!part)
        return part.error();
    if (parts_.size() == kMaxParts)
        return Error(EFBIG, "the image needs a larger index than the format can hold");
    parts_.push_back(PartEntry::describe({offset, kPrefixSize + stored.size()}, stored, *part));
    return {};
}

Result<ByteRange> IndexWriter::write_end(OutputBuffer &out, Packer &packer)
{
    if (!next_.empty())
        if (auto ok = write_part(out, packer); !ok)
            return ok.error();
    const uint64_t start = out.offset();
    if (auto ok = out.append_record({.type = RecordType::directory, .flags = kRequired},
                                    encode_directory(parts_));
        !ok)
        return ok.error();
    return ByteRange{start, out.offset() - start};
}

} // namespace cryo::image
