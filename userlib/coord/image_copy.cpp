// SPDX-License-Identifier: Apache-2.0
#include "coord/image_copy.hpp"

#include "base/sync.hpp"
#include "base/trust.hpp"
#include "base/write_all.hpp"
#include "image/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cryo::coord {

namespace {

constexpr size_t largest_piece = size_t(256) << 10;
constexpr size_t checksum_digits = 32;
constexpr mode_t complete_mode = 0400; // as of images that are not copied

// Reads all of it; `take` gets each piece.
Result<ImageCopy> read_image(int fd, const std::string &path, size_t piece,
                             const std::function<Result<void>(image::Bytes)> &take)
{
    std::vector<uint8_t> bytes(piece);
    image::Hasher hasher;
    ImageCopy all;
    for (;;) {
        const ssize_t n = read(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno(path, errno);
        if (n == 0)
            break;
        const image::Bytes part(bytes.data(), static_cast<size_t>(n));
        hasher.add(part);
        all.bytes += part.size();
        if (Result<void> taken = take(part); !taken)
            return taken.error();
    }
    all.checksum = hasher.digest().hex();
    return all;
}

Result<ImageCopy> copy_to(const Fd &out, const std::string &path, const Fd &in,
                          const std::string &source, const CopyOptions &how)
{
    const auto begun = std::chrono::steady_clock::now();
    uint64_t done = 0;
    const auto put = [&](image::Bytes part) -> Result<void> {
        if (Result<void> written = write_all(out.get(), path, part); !written)
            return written;
        done += part.size();
        std::this_thread::sleep_for(
            pause_after(done, std::chrono::steady_clock::now() - begun, how.rate));
        return {};
    };
    Result<ImageCopy> all = read_image(in.get(), source, piece_at(how.rate), put);
    if (!all)
        return all;
    if (fchmod(out.get(), complete_mode) != 0)
        return Error::from_errno(path, errno);
    if (const int error = how.sync ? sync_file(out.get()) : 0)
        return Error::from_errno(path, error);
    return all;
}

} // namespace

Result<Fd> open_image(const Directory &directory, const std::string &name)
{
    Fd fd(openat(directory.fd(), name.c_str(),
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(directory.path(name), errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, directory.path(name) + ": is no regular file");
    return fd;
}

Result<ImageCopy> copy_image(const Directory &from, const Directory &to, const std::string &name,
                             const CopyOptions &how)
{
    const Result<Fd> in = open_image(from, name);
    if (!in)
        return in.error();
    // Where others may rename what is in `from`, this may be a file of theirs: it would run as
    // ours.
    if (Result<void> own = check_own(in->get(), from.path(name), "it is not what was written");
        !own)
        return own.error();
    const std::string fresh = fmt::format(".{}.tmp", name);
    Fd out(
        openat(to.fd(), fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out)
        return Error::from_errno(to.path(fresh), errno);
    Result<ImageCopy> made = copy_to(out, to.path(name), *in, from.path(name), how);
    out.reset();
    Result<void> named = made ? to.rename(fresh, name) : Result<void>(made.error());
    if (named && how.sync)
        named = to.sync();
    if (named)
        return made;
    unlinkat(to.fd(), fresh.c_str(), 0);
    return named.error();
}

Result<ImageCopy> measure_image(const Directory &directory, const std::string &name)
{
    const Result<Fd> in = open_image(directory, name);
    if (!in)
        return in.error();
    return read_image(in->get(), directory.path(name), largest_piece,
                      [](image::Bytes) { return Result<void>(); });
}

size_t piece_at(uint64_t rate)
{
    return rate == 0 ? largest_piece : std::min<uint64_t>(rate, largest_piece);
}

std::chrono::nanoseconds pause_after(uint64_t bytes, std::chrono::nanoseconds elapsed,
                                     uint64_t rate)
{
    using std::chrono::nanoseconds;
    if (rate == 0)
        return nanoseconds(0);
    const std::chrono::duration<double> due(static_cast<double>(bytes) / static_cast<double>(rate));
    return std::max(std::chrono::duration_cast<nanoseconds>(due) - elapsed, nanoseconds(0));
}

bool is_image_checksum(std::string_view text)
{
    return text.size() == checksum_digits && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
           });
}

} // namespace cryo::coord
