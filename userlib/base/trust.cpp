// SPDX-License-Identifier: Apache-2.0
#include "base/trust.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo {

namespace {

constexpr mode_t others_write = S_IWGRP | S_IWOTH;

Result<struct stat> status_of(int fd, const std::string &path)
{
    struct stat status = {};
    if (fstat(fd, &status) != 0)
        return Error::from_errno(path, errno);
    return status;
}

// Terminals, pipes and sockets are exempt: the user who opened them knows their source.
bool has_an_owner(const struct stat &status)
{
    return S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

Error written_by_others(const struct stat &status, const std::string &path, const char *why,
                        const std::string &way_out)
{
    return {EACCES,
            fmt::format("{}: other users may write to it (mode {:04o}){}; if none of them has "
                        "changed it, protect it with chmod go-w{}",
                        path, status.st_mode & 07777U, why, way_out)};
}

} // namespace

bool is_unknown(uid_t owner)
{
    return owner == unknown_owner || owner == sys::overflow_uid();
}

std::string user_text(uid_t user)
{
    const passwd *known = getpwuid(user);
    return known != nullptr ? fmt::format("{} ({})", known->pw_name, user) : std::to_string(user);
}

Result<void> Trust::add(const std::string &user)
{
    uid_t number = 0;
    const char *end = user.data() + user.size();
    const auto [stop, error] = std::from_chars(user.data(), end, number);
    if (error != std::errc() || stop != end) {
        const passwd *known = getpwnam(user.c_str());
        if (known == nullptr)
            return Error(ENOENT, fmt::format("--owner {}: there is no such user", user));
        number = known->pw_uid;
    }
    named_.push_back(user);
    owners_.push_back(number);
    return {};
}

void Trust::ask(Ask whom)
{
    ask_ = std::move(whom);
    const Fd own(memfd_create("cryo owner", MFD_CLOEXEC));
    caller_ = own ? ask_(own.get()).value_or(0) : 0;
}

bool Trust::is_owner(uid_t user) const
{
    return user == (ask_ ? caller_ : geteuid()) || user == 0 ||
           std::ranges::find(owners_, user) != owners_.end();
}

std::optional<uid_t> Trust::owner_of(int fd, const struct stat &status) const
{
    return ask_ ? ask_(fd) : status.st_uid;
}

bool Trust::keeps_names(int directory) const
{
    struct stat now = {};
    if (fstat(directory, &now) != 0)
        return false;
    const std::optional<uid_t> owner = owner_of(directory, now);
    return owner && is_owner(*owner) &&
           ((now.st_mode & others_write) == 0 || (now.st_mode & S_ISVTX) != 0);
}

Result<void> Trust::check(int fd, const std::string &path) const
{
    const Result<struct stat> status = status_of(fd, path);
    if (!status)
        return status.error();
    if (!has_an_owner(*status))
        return {};
    const std::optional<uid_t> owner = owner_of(fd, *status);
    if (!owner)
        return Error(EACCES, path + ": its owner cannot be determined");
    if (!is_owner(*owner))
        return Error(EACCES, fmt::format("{}: belongs to user {}, and an image is a program: it "
                                         "would run as you; if you trust it, --owner {} says so",
                                         path, user_text(*owner), *owner));
    if ((status->st_mode & others_write) != 0)
        return written_by_others(*status, path, ", and an image is a program", "");
    return {};
}

Result<void> check_own(int fd, const std::string &path, const char *way_out)
{
    const Result<struct stat> status = status_of(fd, path);
    if (!status)
        return status.error();
    if (status->st_uid != geteuid())
        return Error(EACCES, fmt::format("{}: belongs to user {}, not to you; {}", path,
                                         user_text(status->st_uid), way_out));
    if ((status->st_mode & others_write) != 0)
        return written_by_others(*status, path, "", std::string("; ") + way_out);
    return {};
}

} // namespace cryo
