// SPDX-License-Identifier: Apache-2.0
//
// Reading a version back, and checking what was read.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <memory>

#include "delta/version.hpp"

namespace cryo::delta {

using namespace cryo::image;

namespace {

constexpr size_t kPiece = 4 * 1024 * 1024; // a whole number of blocks of every size

// Page-aligned, for O_DIRECT.
class Buffer
{
  public:
    explicit Buffer(uint64_t most)
        : size_(size_t(std::min<uint64_t>(kPiece, (most + kPageSize - 1) / kPageSize * kPageSize))),
          memory_(static_cast<uint8_t *>(operator new(std::max<size_t>(size_, kPageSize), kAlign)))
    {}
    ~Buffer() { operator delete(memory_, kAlign); }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    MutableBytes first(uint64_t count)
    {
        return {memory_, size_t(std::min<uint64_t>(size_, count))};
    }

  private:
    static constexpr std::align_val_t kAlign{kPageSize};
    size_t size_;
    uint8_t *memory_;
};

// Reads all contents, piece by piece, and checks the digest over the digests of their blocks.
Result<void> walk(Version &version, ByteSource *base_file, const Progress &progress,
                  const std::function<Result<void>(MutableBytes)> &use)
{
    const About &about = version.about();
    if (!about.has_contents)
        return Error(EINVAL, version.name() + ": is a signature and has no contents");
    Contents contents(version, base_file);
    ContentHasher hasher(about.block_size, about.size);
    Buffer buffer(about.size);
    std::vector<Digest> digests;
    for (uint64_t at = 0; at < about.size;) {
        MutableBytes now = buffer.first(about.size - at);
        if (auto ok = contents.read(at, now); !ok)
            return ok;
        digests.clear();
        for (size_t i = 0; i < now.size(); i += about.block_size)
            digests.push_back(
                checksum128(now.subspan(i, std::min<size_t>(about.block_size, now.size() - i))));
        hasher.add(digests);
        if (auto ok = use(now); !ok)
            return ok;
        at += now.size();
        if (progress)
            progress(at, about.size);
    }
    if (hasher.digest() != about.content)
        return damaged(fmt::format("{}: what it gives is not the file that was saved in it{}",
                                   version.name(),
                                   base_file ? "; " + base_file->name() + " is not its base" : ""));
    return {};
}

} // namespace

Result<void> Contents::read(uint64_t offset, MutableBytes to)
{
    if (offset % kPageSize || offset > size() || to.size() > size() - offset)
        return Error(EINVAL,
                     fmt::format("{}: has no bytes {} to {}", name(), offset, offset + to.size()));
    size_t whole = to.size() / kPageSize * kPageSize;
    if (auto ok = read_pages(offset / kPageSize, to.first(whole)); !ok)
        return ok;
    if (whole == to.size())
        return {};
    uint8_t page[kPageSize];
    if (auto ok = read_pages((offset + whole) / kPageSize, page); !ok)
        return ok;
    memcpy(to.data() + whole, page, to.size() - whole);
    return {};
}

Result<void> Contents::read_pages(uint64_t page, MutableBytes to)
{
    Image &image = version_.image();
    if (version_.about().base != DeltaBase::file)
        return image.read_pages(kContentsObject, page, to);
    while (!to.empty()) {
        auto run = image.find(kContentsObject, page);
        if (!run)
            return run.error();
        size_t size = size_t(std::min<uint64_t>(run->count, to.size() / kPageSize)) * kPageSize;
        MutableBytes now = to.first(size);
        if (run->hole || run->kind != ExtentKind::base) {
            if (auto ok = image.read_pages(kContentsObject, page, now); !ok)
                return ok;
        } else if (!base_file_) {
            return Error(ENOENT, name() + ": is based on a plain file; name it with --base");
        } else {
            // The file may end within its last page.
            uint64_t at = page * kPageSize;
            uint64_t there = base_file_->size() > at ? base_file_->size() - at : 0;
            MutableBytes bytes = now.first(size_t(std::min<uint64_t>(there, now.size())));
            if (!bytes.empty())
                if (auto ok = base_file_->read(at, bytes); !ok)
                    return ok;
            std::fill(now.begin() + long(bytes.size()), now.end(), uint8_t(0));
        }
        to = to.subspan(size);
        page += size / kPageSize;
    }
    return {};
}

Result<void> write_contents(Version &version, ByteSource *base_file, Sink &sink,
                            const Progress &progress)
{
    auto ok = walk(version, base_file, progress, [&](MutableBytes bytes) {
        iovec piece{bytes.data(), bytes.size()};
        return sink.write(std::span(&piece, 1));
    });
    if (!ok)
        return ok;
    return sink.commit();
}

Result<void> check_contents(Version &version, ByteSource *base_file, const Progress &progress)
{
    return walk(version, base_file, progress, [](MutableBytes) { return Result<void>(); });
}

Result<void> Version::check_blocks(const Progress &progress)
{
    auto partial = partial_signature();
    if (!partial)
        return partial.error();
    if (!about_.has_contents)
        return {};
    Contents contents(*this);
    Buffer buffer(about_.changed * about_.block_size);
    size_t next = 0;
    for (const BlockRun &run : runs_) {
        if (!run.changed)
            continue;
        uint64_t end = std::min((run.first + run.count) * about_.block_size, about_.size);
        for (uint64_t at = run.first * about_.block_size; at < end;) {
            MutableBytes now = buffer.first(end - at);
            if (auto ok = contents.read(at, now); !ok)
                return ok;
            for (size_t i = 0; i < now.size(); i += about_.block_size, next++)
                if (checksum128(
                        now.subspan(i, std::min<size_t>(about_.block_size, now.size() - i))) !=
                    (*partial)[next])
                    return damaged(fmt::format("{}: block {} is not what its signature says",
                                               name(), (at + i) / about_.block_size));
            at += now.size();
            if (progress)
                progress(next, about_.changed);
        }
    }
    return {};
}

} // namespace cryo::delta
