// SPDX-License-Identifier: Apache-2.0
#include "capture/files/descriptor_listing.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::capture {

using resources::Seen;

Fd DescriptorListing::open(std::string_view name)
{
    Fd opened(::open(proc_.path(name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    not_opened_ = opened ? not_opened_ : errno;
    return opened;
}

Error DescriptorListing::failure(std::string_view where, int fd) const
{
    const int why = not_opened_ != 0 ? not_opened_ : errno;
    return Error::from_errno(proc_.path(fmt::format("{}/{}", where, fd)), why);
}

Result<std::string> DescriptorListing::link(int fd) const
{
    char target[PATH_MAX];
    const ssize_t n = readlinkat(links_.get(), std::to_string(fd).c_str(), target, sizeof(target));
    if (n < 0)
        return failure("fd", fd);
    return std::string(target, static_cast<size_t>(n));
}

Result<Fd> DescriptorListing::open_info(int fd) const
{
    Fd file(openat(infos_.get(), std::to_string(fd).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        return failure("fdinfo", fd);
    return file;
}

// The kernel returns such a file in one piece: a short read is its end.
Result<std::string> DescriptorListing::read_info(const Fd &info, int fd) const
{
    std::string text;
    char buffer[4096];
    ssize_t n;
    do {
        n = pread(info.get(), buffer, sizeof(buffer), static_cast<off_t>(text.size()));
        if (n < 0)
            return failure("fdinfo", fd);
        text.append(buffer, static_cast<size_t>(n));
    } while (n == sizeof(buffer));
    return text;
}

bool DescriptorListing::is_open(int fd) const
{
    struct stat link;
    return fd >= 0 &&
           fstatat(links_.get(), std::to_string(fd).c_str(), &link, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::string> DescriptorListing::info(int fd) const
{
    const Result<Fd> file = open_info(fd);
    return file ? read_info(*file, fd) : file.error();
}

Result<Seen> DescriptorListing::look_at(int fd) const
{
    Result<std::string> info = this->info(fd);
    return info ? look_at(fd, std::move(*info)) : info.error();
}

Result<Seen> DescriptorListing::look_at(int fd, std::string info) const
{
    Seen seen;
    seen.fd = fd;
    set_info(seen, std::move(info));
    Result<std::string> link = this->link(fd);
    if (!link)
        return link.error();
    seen.link = std::move(*link);
    if (fstatat(links_.get(), std::to_string(fd).c_str(), &seen.status, 0) != 0)
        return failure("fd", fd);
    return seen;
}

void set_info(Seen &seen, std::string text)
{
    seen.info = std::move(text);
    std::string_view position = field(seen.info, "pos");
    std::string_view flags = field(seen.info, "flags");
    seen.position = take_number(position);
    seen.flags = static_cast<uint32_t>(take_number(flags, 8));
    seen.close_on_exec = (seen.flags & O_CLOEXEC) != 0;
    seen.flags &= ~static_cast<uint32_t>(O_CLOEXEC);
}

} // namespace cryo::capture
