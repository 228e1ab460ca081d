// SPDX-License-Identifier: Apache-2.0
// What has no name any more is made under one that nobody else can use, which it has for a moment.
#include "base/trust.hpp"
#include "look/jvm_counters.hpp"
#include "restore/open_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// Where something without a name is made: where the old one was if that is still possible. Nothing
// of a rehearsal is made there, nor the counters of a JVM: that directory may be another user's.
std::vector<std::string> places_for(const Planning &p, const std::string &path)
{
    std::vector<std::string> places;
    if (!p.options.rehearse && !capture::is_jvm_counters(path))
        places.push_back(path.substr(0, std::max<size_t>(path.rfind('/'), 1)));
    if (const char *temporary = getenv("TMPDIR"))
        places.emplace_back(temporary);
    places.insert(places.end(), {"/var/tmp", "/tmp"});
    return places;
}

// A file without a name where O_TMPFILE makes none (NFS, which keeps a hidden name for it).
Result<Fd> made_and_removed(const Planning &p, const std::string &place)
{
    const Fd directory(open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!directory)
        return Error::from_errno(place, errno);
    std::string name = fmt::format("/proc/self/fd/{}/.cryo.XXXXXX", directory.get());
    Fd made(mkostemp(name.data(), O_CLOEXEC));
    if (!made)
        return Error::from_errno(place, errno);
    struct stat now = {};
    if (unlink(name.c_str()) == 0 && fstat(made.get(), &now) == 0 &&
        (now.st_nlink == 0 || p.options.trust->keeps_names(directory.get())))
        return made;
    return Error(EPERM, place + ": another user could have kept a name of it");
}

} // namespace

Result<Fd> removed_directory(const Planning &p, const image::File &file)
{
    const std::string path(file.path);
    int why = 0;
    std::vector<std::string> names = places_for(p, path);
    for (std::string &name : names)
        name += "/.cryo.XXXXXX";
    // The kernel goes on telling the name that a directory had.
    if (!p.options.rehearse && mkdir(path.c_str(), 0700) == 0)
        names.insert(names.begin(), path);
    for (std::string &name : names) {
        if (name != path && mkdtemp(name.data()) == nullptr) {
            why = errno;
            continue;
        }
        Fd made(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        why = errno;
        struct stat now;
        if (rmdir(name.c_str()) != 0)
            return Error::from_errno(fmt::format("removing {}", name), errno);
        // Where others may rename our directories, it may be theirs.
        if (made && fstat(made.get(), &now) == 0 && now.st_uid == geteuid())
            return made;
    }
    return Error(why, fmt::format("there is no place for the directory {}, which was removed: {}",
                                  path, strerror(why)));
}

Result<Fd> nameless_file(const Planning &p, const image::File &file)
{
    const std::string path(file.path);
    int why = 0;
    for (const std::string &place : places_for(p, path)) {
        Fd made(open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (made)
            return made;
        Result<Fd> removed = made_and_removed(p, place);
        if (removed)
            return removed;
        why = removed.error().code();
    }
    return Error(why, fmt::format("there is no place for the contents of {}, which has no name: {}",
                                  path, strerror(why)));
}

} // namespace cryo::restore
