// SPDX-License-Identifier: Apache-2.0
#include "redundancy/parity_file.hpp"

#include "base/sync.hpp"
#include "base/write_all.hpp"
#include "image/checksum.hpp"
#include "image/little_endian.hpp"
#include "redundancy/io.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::redundancy {

namespace {

using image::Bytes;

constexpr std::string_view magic = "CRYOSET1";
constexpr size_t length_at = 8;
constexpr size_t digest_at = 16;
constexpr size_t head_bytes = 32;
constexpr const char *way_out = "choose another directory for images";
constexpr mode_t complete_mode = 0400;

std::string fresh_name()
{
    return fmt::format(".{}.tmp", parity_name);
}

Bytes bytes_of(std::string_view text)
{
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

image::Digest digest_of(Bytes prefix, std::string_view description)
{
    image::Hasher hasher;
    hasher.add(prefix);
    hasher.add(bytes_of(description));
    return hasher.digest();
}

std::vector<uint8_t> head_of(std::string_view description)
{
    std::vector<uint8_t> head(head_bytes);
    std::ranges::copy(magic, head.begin());
    image::store_le(head.data() + length_at, static_cast<uint32_t>(description.size()));
    const Bytes prefix = Bytes(head).first(digest_at);
    std::ranges::copy(digest_of(prefix, description).bytes(), head.begin() + digest_at);
    return head;
}

// Ties a record to its set: one of an older set, which the disk still had in this place, is none.
uint64_t tail_sum(std::string_view id, Bytes numbers)
{
    image::Hasher hasher;
    hasher.add(bytes_of(id));
    hasher.add(numbers);
    return hasher.digest().low;
}

// The row, the sums, and the sum of these.
size_t tail_bytes(size_t sums)
{
    return sizeof(uint64_t) * (sums + 2);
}

Error unusable(const std::string &where, const std::string &what)
{
    return {EBADMSG, fmt::format("{}: is not the parity of a set ({})", where, what)};
}

// How long the description is.
Result<uint32_t> check_head(Bytes head, const std::string &where)
{
    if (head.size() < head_bytes || !std::ranges::equal(head.first(magic.size()), bytes_of(magic)))
        return unusable(where, "its first bytes are others");
    const auto length = image::load_le<uint32_t>(head.data() + length_at);
    if (length > most_description ||
        image::load_le<uint32_t>(head.data() + length_at + sizeof(length)) != 0)
        return unusable(where, "its first numbers are impossible");
    return length;
}

} // namespace

Result<Description> read_parity_head(Bytes bytes, const std::string &where)
{
    const Result<uint32_t> length = check_head(bytes, where);
    if (!length)
        return length.error();
    if (*length > bytes.size() - head_bytes)
        return unusable(where, "it ends within its description");
    const Bytes text = bytes.subspan(head_bytes, *length);
    const std::string_view description(reinterpret_cast<const char *>(text.data()), text.size());
    const auto stored = bytes.subspan<digest_at, head_bytes - digest_at>();
    if (image::Digest::from_bytes(stored) != digest_of(bytes.first(digest_at), description))
        return unusable(where, "checksum of its description");
    return read_description(description, where);
}

Result<ParityWriter> ParityWriter::create(const Directory &directory, const Description &set,
                                          bool sync)
{
    const std::string path = directory.path(parity_name);
    if (Result<void> good = check(set, path); !good)
        return good.error();
    if (Result<void> own = check_own(directory.fd(), directory.path(), way_out); !own)
        return own.error();
    const std::string description = write_description(set);
    if (description.size() > most_description)
        return Error(EFBIG, path + ": a set with so many files cannot be described");
    // One that is there was left by an encoding that was killed.
    if (Result<void> gone = directory.remove(fresh_name()); !gone)
        return gone.error();
    Fd fd(openat(directory.fd(), fresh_name().c_str(),
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return Error::from_errno(directory.path(fresh_name()), errno);
    ParityWriter writer(directory, set.id, std::move(fd), sync);
    Result<void> written = write_all(writer.fd_.get(), path, head_of(description));
    if (written)
        written = write_all(writer.fd_.get(), path, bytes_of(description));
    if (!written)
        return written.error();
    return writer;
}

ParityWriter::~ParityWriter()
{
    if (fd_)
        unlinkat(directory_.fd(), fresh_name().c_str(), 0);
}

Result<void> ParityWriter::add(uint64_t row, const std::vector<uint64_t> &sums, Bytes block)
{
    tail_.resize(tail_bytes(sums.size()));
    uint8_t *at = tail_.data();
    image::store_le(at, row);
    for (const uint64_t sum : sums)
        image::store_le(at += sizeof(sum), sum);
    const size_t numbers = tail_.size() - sizeof(uint64_t);
    image::store_le(at + sizeof(uint64_t), tail_sum(id_, Bytes(tail_).first(numbers)));
    const std::string path = directory_.path(parity_name);
    Result<void> written = write_all(fd_.get(), path, block);
    return written ? write_all(fd_.get(), path, tail_) : written;
}

Result<void> ParityWriter::commit()
{
    const std::string path = directory_.path(parity_name);
    if (fchmod(fd_.get(), complete_mode) != 0)
        return Error::from_errno(path, errno);
    if (const int error = sync_ ? sync_file(fd_.get()) : 0)
        return Error::from_errno(path, error);
    if (Result<void> named = directory_.rename(fresh_name(), parity_name); !named)
        return named;
    fd_.reset();
    Result<void> synced = sync_ ? directory_.sync() : Result<void>();
    if (!synced)
        static_cast<void>(directory_.remove(parity_name));
    return synced;
}

Result<ParityReader> ParityReader::open(const Directory &directory, const Trust &trust)
{
    const std::string path = directory.path(parity_name);
    Fd fd(openat(directory.fd(), parity_name,
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is no regular file");
    if (Result<void> good = trust.check(fd.get(), path); !good)
        return good.error();
    std::vector<uint8_t> bytes(head_bytes);
    Result<size_t> n = read_up_to(fd.get(), path, bytes);
    if (!n)
        return n.error();
    const Result<uint32_t> length = check_head(Bytes(bytes).first(*n), path);
    if (!length)
        return length.error();
    bytes.resize(head_bytes + *length);
    n = read_up_to(fd.get(), path, image::MutableBytes(bytes).subspan(head_bytes));
    if (!n)
        return n.error();
    Result<Description> set = read_parity_head(Bytes(bytes).first(head_bytes + *n), path);
    if (!set)
        return set.error();
    return ParityReader(path, std::move(*set), std::move(fd));
}

bool ParityReader::fail(const std::string &what)
{
    if (!trouble_)
        trouble_ = Error(EBADMSG, fmt::format("{}: {}", path_, what));
    return false;
}

bool ParityReader::next(uint64_t row, image::MutableBytes block, std::vector<uint64_t> &sums)
{
    tail_.resize(tail_bytes(sums.size()));
    for (const image::MutableBytes part : {block, image::MutableBytes(tail_)}) {
        const Result<size_t> n = read_up_to(fd_.get(), path_, part);
        if (!n)
            return fail(n.error().text());
        if (*n < part.size())
            return fail(fmt::format("ends within row {}", row));
    }
    const size_t numbers = tail_.size() - sizeof(uint64_t);
    if (image::load_le<uint64_t>(tail_.data() + numbers) !=
            tail_sum(set_.id, Bytes(tail_).first(numbers)) ||
        image::load_le<uint64_t>(tail_.data()) != row)
        return fail(fmt::format("row {} is damaged (checksum of its numbers)", row));
    for (size_t i = 0; i < sums.size(); i++)
        sums[i] = image::load_le<uint64_t>(tail_.data() + sizeof(uint64_t) * (i + 1));
    if (image::checksum64(block) != sums.back())
        return fail(fmt::format("row {} is damaged (checksum of its parity)", row));
    return true;
}

void ParityReader::finish()
{
    uint8_t more = 0;
    const Result<size_t> n = read_up_to(fd_.get(), path_, image::MutableBytes(&more, 1));
    if (!n || *n != 0)
        fail("goes on behind its last row");
}

} // namespace cryo::redundancy
