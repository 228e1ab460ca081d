// SPDX-License-Identifier: Apache-2.0
// Copies the images of an archive to another one, with another tree image after them.
#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace cryo::image {

namespace {

// Copies in page-aligned pieces, as a sink may want: images are multiples of a page long.
Result<void> copy_bytes(int from, ByteRange range, Sink &sink)
{
    constexpr size_t piece = 1 << 20;
    const std::unique_ptr<void, decltype(&free)> buffer(aligned_alloc(kPageSize, piece), free);
    if (!buffer)
        return Error(ENOMEM, "no memory for a copy of an image");
    while (range.length > 0) {
        const size_t want = std::min<uint64_t>(piece, range.length);
        size_t have = 0;
        while (have < want) {
            const ssize_t n = pread(from, static_cast<char *>(buffer.get()) + have, want - have,
                                    static_cast<off_t>(range.offset + have));
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return Error::from_errno("reading an image to be copied", n < 0 ? errno : EIO);
            have += static_cast<size_t>(n);
        }
        iovec part = {buffer.get(), want};
        if (auto written = sink.write(std::span(&part, 1)); !written)
            return written;
        range.offset += want;
        range.length -= want;
    }
    return {};
}

Member record_of(const SnapshotMember &member)
{
    Member record;
    record.length = member.place.length;
    record.image_id = member.id.bytes();
    record.checksum = member.checksum.bytes();
    record.state = member.state;
    record.pid = member.pid;
    record.ppid = member.ppid;
    record.pgid = member.pgid;
    record.sid = member.sid;
    record.wait_status = member.wait_status;
    record.comm = member.comm;
    return record;
}

} // namespace

Result<void> ArchiveWriter::copy_member(int from, const SnapshotMember &member)
{
    if (auto copied = copy_bytes(from, member.place, *sink_); !copied)
        return copied;
    Member about = record_of(member);
    about.offset = offset_;
    std::vector<uint8_t> &encoded = members_.emplace_back(encoded_size(about));
    encode(about, encoded);
    offset_ += member.place.length;
    return {};
}

Result<Committed> copy_snapshot(const Fd &from, const std::string &name, std::unique_ptr<Sink> sink,
                                const Tree &as)
{
    auto snapshot = Snapshot::open(Fd(fcntl(from.get(), F_DUPFD_CLOEXEC, 0)), name);
    if (!snapshot)
        return snapshot.error();
    const auto &members = (*snapshot)->members();
    const bool rooted = as.scope == Scope::process || as.scope == Scope::tree;
    if (rooted &&
        std::ranges::none_of(members, [&](const auto &m) { return m.pid == as.root_pid; }))
        return Error(ESRCH, fmt::format("process {} ended before it could be saved", as.root_pid));
    if ((*snapshot)->is_plain()) {
        const SnapshotMember &only = members.front();
        if (auto copied = copy_bytes(from.get(), only.place, *sink); !copied)
            return copied.error();
        if (auto committed = sink->commit(); !committed)
            return committed.error();
        return Committed{.id = only.id, .checksum = only.checksum, .size = only.place.length};
    }
    ArchiveWriter archive(std::move(sink));
    for (const SnapshotMember &member : members) {
        if (member.state != MemberState::saved)
            archive.add_without_image(record_of(member));
        else if (auto copied = archive.copy_member(from.get(), member); !copied)
            return copied.error();
    }
    return archive.commit(as);
}

} // namespace cryo::image
