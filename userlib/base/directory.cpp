// SPDX-License-Identifier: Apache-2.0
#include "base/directory.hpp"

#include "base/sync.hpp"
#include "base/write_all.hpp"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

namespace cryo {

namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Error open_failure(const std::string &path, int error)
{
    // With these flags, a link gives ENOTDIR as well.
    struct stat status = {};
    if (error == ENOTDIR && lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode))
        return {ELOOP, path + ": is a symbolic link; name the directory itself"};
    return Error::from_errno(path, error);
}

} // namespace

std::pair<std::string, std::string> split_path(const std::string &path)
{
    const size_t end = path.find_last_not_of('/');
    const std::string whole = path.substr(0, end == std::string::npos ? 1 : end + 1);
    const size_t slash = whole.rfind('/');
    if (slash == std::string::npos)
        return {".", whole};
    return {slash == 0 ? "/" : whole.substr(0, slash), whole.substr(slash + 1)};
}

Result<Directory> Directory::open(const std::string &path)
{
    // With a trailing slash, a link would be followed.
    const auto [parent, name] = split_path(path);
    const std::string plain = name.empty() ? parent : parent + "/" + name;
    Fd fd(::open(plain.c_str(), directory_flags));
    if (!fd)
        return open_failure(plain, errno);
    return Directory(std::move(fd), path);
}

Result<Directory> Directory::open_or_make(const std::string &path)
{
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return Error::from_errno(path, errno);
    return open(path);
}

Result<Directory> Directory::of(int fd, const std::string &path)
{
    Fd again(openat(fd, ".", directory_flags));
    if (!again)
        return Error::from_errno(path, errno);
    return Directory(std::move(again), path);
}

Result<Directory> Directory::enter(const std::string &name) const
{
    Fd fd(openat(fd_.get(), name.c_str(), directory_flags));
    if (!fd)
        return open_failure(path(name), errno);
    return Directory(std::move(fd), path(name));
}

Result<Directory> Directory::make(const std::string &name) const
{
    if (mkdirat(fd_.get(), name.c_str(), 0700) != 0)
        return Error::from_errno(path(name), errno);
    return enter(name);
}

Result<std::optional<struct stat>> Directory::look(const std::string &name) const
{
    struct stat status = {};
    if (fstatat(fd_.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0)
        return std::optional(status);
    if (errno == ENOENT)
        return std::optional<struct stat>();
    return Error::from_errno(path(name), errno);
}

Result<std::string> Directory::read(const std::string &name, size_t most) const
{
    // O_NONBLOCK: a FIFO in the file's place must not block the open.
    const Fd fd(
        openat(fd_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(path(name), errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path(name) + ": is no regular file");
    std::string text;
    char bytes[16384];
    for (;;) {
        const ssize_t n = ::read(fd.get(), bytes, sizeof(bytes));
        if (n == 0)
            return text;
        if (n < 0 && errno != EINTR)
            return Error::from_errno(path(name), errno);
        text.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
        if (text.size() > most)
            return Error(EFBIG, fmt::format("{}: has more than {} bytes", path(name), most));
    }
}

// An existing one was left by a writer that died; use it only if this function may have made it.
Result<Fd> Directory::open_temporary(const std::string &name) const
{
    constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    Fd fd(openat(fd_.get(), name.c_str(), flags | O_CREAT | O_EXCL, 0600));
    if (fd)
        return fd;
    if (errno == EEXIST)
        fd = Fd(openat(fd_.get(), name.c_str(), flags));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(path(name), errno);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1)
        return Error(EEXIST, path(name) + ": is in the way; remove it");
    if (ftruncate(fd.get(), 0) != 0)
        return Error::from_errno(path(name), errno);
    return fd;
}

Result<void> Directory::write(const std::string &name, const std::string &contents) const
{
    const std::string fresh = fmt::format(".{}.tmp", name);
    Result<Fd> fd = open_temporary(fresh);
    if (!fd)
        return fd.error();
    const Result<void> written = write_all(fd->get(), path(name), contents);
    int error = written ? 0 : written.error().code();
    if (error == 0 && (sync_file(fd->get()) != 0 ||
                       renameat(fd_.get(), fresh.c_str(), fd_.get(), name.c_str()) != 0))
        error = errno;
    if (error != 0) {
        unlinkat(fd_.get(), fresh.c_str(), 0);
        return Error::from_errno(path(name), error);
    }
    return sync();
}

Result<std::vector<std::string>> Directory::names() const
{
    // A separate open file, since the directory position belongs to it.
    const int again = openat(fd_.get(), ".", directory_flags);
    DIR *entries = again >= 0 ? fdopendir(again) : nullptr;
    if (entries == nullptr) {
        const int error = errno;
        if (again >= 0)
            close(again);
        return Error::from_errno(path_, error);
    }
    std::vector<std::string> found;
    errno = 0;
    for (const dirent *entry; (entry = readdir(entries)) != nullptr; errno = 0) {
        std::string name = static_cast<const char *>(entry->d_name);
        if (name != "." && name != "..")
            found.push_back(std::move(name));
    }
    const int error = errno;
    closedir(entries);
    if (error != 0) // an incomplete list is no result
        return Error::from_errno(path_, error);
    return found;
}

Result<void> Directory::remove(const std::string &name) const
{
    if (unlinkat(fd_.get(), name.c_str(), 0) == 0 || errno == ENOENT)
        return {};
    if (errno == EISDIR && unlinkat(fd_.get(), name.c_str(), AT_REMOVEDIR) == 0)
        return {};
    return Error::from_errno(path(name), errno);
}

Result<void> Directory::rename(const std::string &from, const std::string &to) const
{
    if (renameat2(fd_.get(), from.c_str(), fd_.get(), to.c_str(), RENAME_NOREPLACE) == 0)
        return {};
    // Some file systems lack it (NFS); no other process writes here, so checking first suffices.
    if (errno == EINVAL) {
        const Result<std::optional<struct stat>> there = look(to);
        if (!there)
            return there.error();
        if (there->has_value())
            return Error::from_errno(path(to), EEXIST);
        if (renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) == 0)
            return {};
    }
    return Error::from_errno(path(to), errno);
}

Result<void> Directory::sync() const
{
    if (const int err = sync_directory(fd_.get()))
        return Error::from_errno(path_, err);
    return {};
}

void Directory::clear() const
{
    const Result<std::vector<std::string>> all = names();
    if (!all)
        return;
    for (const std::string &name : *all) {
        if (remove(name))
            continue;
        if (const Result<Directory> inner = enter(name); inner) {
            inner->clear();
            unlinkat(fd_.get(), name.c_str(), AT_REMOVEDIR);
        }
    }
}

} // namespace cryo
