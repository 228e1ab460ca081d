// SPDX-License-Identifier: Apache-2.0
#include "image/header.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <fmt/format.h>

#include "image/records.hpp"

namespace cryo::image {

namespace {

constexpr size_t kKernelField = 64;
constexpr size_t kDigestSize = 16;

void put(ByteWriter &to, const Digest &digest)
{
    to.put(digest.low);
    to.put(digest.high);
}

Digest get_digest(ByteReader &from)
{
    Digest d;
    d.low = from.get<uint64_t>();
    d.high = from.get<uint64_t>();
    return d;
}

Error too_new(std::string text)
{
    return {EPROTO, std::move(text)};
}

bool all_zero(Bytes bytes)
{
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

} // namespace

Error damaged(std::string text)
{
    return {EBADMSG, std::move(text)};
}

std::string describe(RecordType type)
{
    if (const char *name = name_of(type))
        return fmt::format("record {}", name);
    return fmt::format("record of unknown type {}", static_cast<uint32_t>(type));
}

Header::Page Header::encode() const
{
    Page page{};
    ByteWriter to(page);
    to.put(Bytes(kHeaderMagic));
    to.put(version);
    to.put(oldest_reader);
    to.put(machine);
    to.put(static_cast<uint16_t>(role));
    to.put(page_size);
    to.put(package_blocks);
    to.put(features);
    to.put(hints);
    put(to, id);
    put(to, base_id);
    put(to, base_checksum);
    to.put(created);
    std::string_view name = std::string_view(kernel).substr(0, kKernelField - 1);
    to.put(as_bytes(name));
    to.zeros(kHeaderSize - kDigestSize - to.size());
    put(to, checksum128(to.written()));
    assert(to.ok() && to.size() == kHeaderSize);
    return page;
}

Result<Header> Header::decode(Bytes page)
{
    if (page.size() != kHeaderSize)
        return damaged("not a Cryo image: shorter than a header");
    if (!std::equal(std::begin(kHeaderMagic), std::end(kHeaderMagic), page.begin()))
        return damaged("not a Cryo image: it does not begin with the magic number");
    ByteReader from(page.subspan(sizeof kHeaderMagic));
    Header h;
    h.version = from.get<uint16_t>();
    h.oldest_reader = from.get<uint16_t>();
    h.machine = from.get<uint16_t>();
    h.role = static_cast<Role>(from.get<uint16_t>());
    h.page_size = from.get<uint32_t>();
    h.package_blocks = from.get<uint32_t>();
    h.features = from.get<uint64_t>();
    h.hints = from.get<uint64_t>();
    h.id = get_digest(from);
    h.base_id = get_digest(from);
    h.base_checksum = get_digest(from);
    h.created = from.get<int64_t>();
    std::string_view kernel = as_text(from.bytes(kKernelField));
    h.kernel = kernel.substr(0, kernel.find('\0'));

    ByteReader end(page.last(kDigestSize));
    if (get_digest(end) != checksum128(page.first(kHeaderSize - kDigestSize)))
        return damaged("the header is damaged (checksum)");
    // From here on the header is what its writer wrote.
    if (h.oldest_reader > kFormatVersion)
        return too_new(
            fmt::format("format version {} needs a reader of version {}; this one has {}: "
                        "use a newer Cryo",
                        h.version, h.oldest_reader, kFormatVersion));
    if (h.features & ~kKnownFeatures)
        return too_new(fmt::format("the image uses features {:#x} that this version does not know: "
                                   "use a newer Cryo",
                                   h.features & ~kKnownFeatures));
    if (h.page_size != kPageSize)
        return too_new(fmt::format("pages of {} bytes are not supported", h.page_size));
    if (h.role != Role::process && h.role != Role::tree && h.role != Role::file)
        return too_new(fmt::format("the image has role {}, which this version does not know",
                                   static_cast<unsigned>(h.role)));
    if (h.package_blocks < kMinPackageBlocks || h.package_blocks > kMaxPackageBlocks)
        return damaged(fmt::format("the header asks for packages of {} blocks", h.package_blocks));
    if (!h.id)
        return damaged("the header has no image id");
    return h;
}

// The footer page is a record like any other. Its payload ends with the image's checksum.
Footer::Page Footer::seal(Hasher &covered)
{
    Page page{};
    ByteWriter to(MutableBytes(page).subspan(kPrefixSize));
    to.put(Bytes(kFooterMagic));
    put(to, id);
    for (uint64_t n : {length, directory, directory_length, blocks, packages, stored, records})
        to.put(n);
    to.zeros(kFooterSize - kPrefixSize - kDigestSize - to.size());
    checksum = expected_checksum(covered, page);
    put(to, checksum);
    assert(to.ok() && to.size() == kFooterSize - kPrefixSize);

    Bytes payload = to.written();
    RecordPrefix prefix{.type = RecordType::footer, .flags = kRequired, .length = payload.size()};
    std::ranges::copy(prefix.encode(payload), page.begin());
    return page;
}

Digest Footer::expected_checksum(Hasher &covered, Bytes page)
{
    covered.add(page.subspan(kPrefixSize, kFooterSize - kPrefixSize - kDigestSize));
    return covered.digest();
}

Result<Footer> Footer::decode(Bytes page)
{
    if (page.size() != kFooterSize)
        return damaged("not committed: the footer is missing");
    RecordPrefix prefix = RecordPrefix::decode(page.first<kPrefixSize>());
    Bytes payload = page.subspan(kPrefixSize);
    ByteReader from(payload);
    Bytes magic = from.bytes(sizeof kFooterMagic);
    if (prefix.type != RecordType::footer || prefix.length != payload.size() ||
        !std::equal(magic.begin(), magic.end(), std::begin(kFooterMagic)))
        return damaged("not committed: it does not end with a footer (truncated?)");
    if (!prefix.matches(payload))
        return damaged("the footer is damaged (checksum)");
    if (auto ok = prefix.check(); !ok)
        return ok.error();
    Footer f;
    f.id = get_digest(from);
    for (uint64_t *n : {&f.length, &f.directory, &f.directory_length, &f.blocks, &f.packages,
                        &f.stored, &f.records})
        *n = from.get<uint64_t>();
    if (!all_zero(from.bytes(from.left() - kDigestSize)))
        return damaged("the footer has bytes that should be zero");
    f.checksum = get_digest(from);
    if (f.length < kHeaderSize + kFooterSize || f.length % kPageSize || f.directory < kHeaderSize ||
        f.directory > f.length - kFooterSize || f.directory_length < kPrefixSize ||
        f.directory_length > kPrefixSize + kMaxRecord ||
        f.directory_length > f.length - kFooterSize - f.directory)
        return damaged("the footer points outside the image");
    return f;
}

RecordPrefix::Encoded RecordPrefix::encode(Bytes covered) const
{
    Encoded out;
    ByteWriter to(out);
    to.put(static_cast<uint32_t>(type));
    to.put(version);
    to.put(flags);
    to.put(length);
    to.put(record_checksum(to.written(), covered));
    return out;
}

RecordPrefix RecordPrefix::decode(std::span<const uint8_t, kPrefixSize> bytes)
{
    ByteReader from(bytes);
    RecordPrefix p;
    p.type = static_cast<RecordType>(from.get<uint32_t>());
    p.version = from.get<uint16_t>();
    p.flags = from.get<uint16_t>();
    p.length = from.get<uint64_t>();
    p.checksum = from.get<uint64_t>();
    return p;
}

bool RecordPrefix::matches(Bytes covered) const
{
    Encoded again = encode(covered);
    return load_le<uint64_t>(again.data() + kPrefixSize - sizeof(uint64_t)) == checksum;
}

Result<void> RecordPrefix::check() const
{
    uint16_t known = known_version(type);
    if (!known && (flags & kRequired))
        return too_new(fmt::format("{} must be understood to use this image: use a newer Cryo",
                                   describe(type)));
    if (known && version > known && (flags & kRequiredVersion))
        return too_new(fmt::format("{} has version {}, which must be understood to use this image; "
                                   "version {} is known here: use a newer Cryo",
                                   describe(type), version, known));
    if (type != RecordType::segment && length > kMaxRecord)
        return damaged(
            fmt::format("{} claims {} bytes; the limit is {}", describe(type), length, kMaxRecord));
    return {};
}

} // namespace cryo::image
