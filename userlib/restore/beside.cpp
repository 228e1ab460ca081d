// SPDX-License-Identifier: Apache-2.0
#include "restore/beside.hpp"

#include "base/left_over.hpp"
#include "base/trust.hpp"
#include "look/jvm_counters.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr int as_directory = O_PATH | O_DIRECTORY | O_CLOEXEC;

Error refusal(const image::File &file, int why)
{
    return Error(why, fmt::format("file {} is not as it was saved, and cannot be written back: {}",
                                  file.path, strerror(why)));
}

// mkdir(2) follows no link, and what it has made is not exchanged by others where that directory's
// parent is sticky, as /tmp is. Its former mode is unknown, so the new one is private; but all
// users must find the counters of JVMs.
Result<Fd> make_directory(Planning &p, const std::string &path, const image::File &file)
{
    const mode_t mode = capture::is_jvm_counters(file.path) ? 0755 : 0700;
    if (mkdir(path.c_str(), mode) == 0)
        p.plan.replacements.add_directory(path);
    else if (errno != EEXIST) // another restart may have been faster
        return refusal(file, errno);
    Fd made(open(path.c_str(), as_directory | O_NOFOLLOW));
    if (!made)
        return refusal(file, errno);
    return made;
}

// A JVM's counters are saved without being asked for, and in /tmp: so the directory has to be of a
// user who is trusted, whoever it belonged to before, and nobody else may write there and so
// exchange the names in it. A JVM itself takes no other one either.
Result<void> check_directory(const Planning &p, const std::string &path, int fd)
{
    struct stat now = {};
    if (fstat(fd, &now) != 0)
        return Error::from_errno(fmt::format("looking at {}", path), errno);
    const std::optional<uid_t> owner = p.options.trust->owner_of(fd, now);
    if (!owner)
        return Error(EPERM, fmt::format("directory {}: its owner cannot be determined", path));
    if (!p.options.trust->is_owner(*owner))
        return Error(EPERM,
                     fmt::format("directory {} belongs to user {}", path, user_text(*owner)));
    if ((now.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return Error(EPERM, fmt::format("others may write in the directory {} (mode {:04o})", path,
                                        now.st_mode & 07777U));
    return {};
}

// As a descriptor, so that what was looked at is where the file is made.
Result<Fd> directory_for(Planning &p, const image::File &file)
{
    const std::string path(file.path.substr(0, std::max<size_t>(file.path.rfind('/'), 1)));
    const bool in_tmp = capture::is_jvm_counters(file.path);
    Fd there(open(path.c_str(), as_directory | (in_tmp ? O_NOFOLLOW : 0)));
    if (!there && errno != ENOENT)
        return refusal(file, errno);
    if (!there) {
        Result<Fd> made = make_directory(p, path, file);
        if (!made)
            return made;
        there = std::move(*made);
    }
    if (in_tmp) {
        if (Result<void> good = check_directory(p, path, there.get()); !good)
            return good.error();
    }
    return there;
}

} // namespace

Result<Beside> make_beside(Planning &p, const image::File &file)
{
    Result<Fd> directory = directory_for(p, file);
    if (!directory)
        return directory.error();
    const size_t slash = file.path.rfind('/');
    const std::string parent(file.path.substr(0, slash));
    if (p.plan.replacements.is_first_in(parent)) {
        if (const Result<Directory> there = Directory::of(directory->get(), parent); there)
            sweep_left_files(*there);
    }
    const std::string through = fmt::format("/proc/self/fd/{}", directory->get());
    std::string made = fmt::format("{}/{}", through, name_for_now(file.path.substr(slash + 1)));
    Fd fd(mkostemp(made.data(), O_CLOEXEC));
    if (!fd)
        return refusal(file, errno);
    return Beside{std::move(fd), parent + made.substr(through.size())};
}

} // namespace cryo::restore
