// SPDX-License-Identifier: Apache-2.0
#include "restore/beside.hpp"

#include "capture/jvm_counters.hpp"
#include "restore/trusted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
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

// mkdir(2) follows no link, and what it has made is not exchanged by others where that
// directory's parent is sticky, as /tmp is.
Result<Fd> make_directory(Planning &p, const std::string &path, const image::File &file)
{
    if (mkdir(path.c_str(), 0755) == 0)
        p.plan.replacements.add_directory(path);
    else if (errno != EEXIST) // another restart may have been faster
        return refusal(file, errno);
    Fd made(open(path.c_str(), as_directory | O_NOFOLLOW));
    if (!made)
        return refusal(file, errno);
    return made;
}

// A JVM's counters are saved without being asked for, and in /tmp: so the directory has to be of a
// user who may own the file, and no link. A JVM looks at the same.
Result<void> check_directory(const Planning &p, const std::string &path, const image::File &file,
                             int fd)
{
    image::File directory;
    directory.path = path;
    directory.uid = file.uid;
    const Result<Fd> found = find_trusted(p.options, directory);
    if (!found)
        return found.error();
    struct stat trusted;
    struct stat opened;
    if (fstat(found->get(), &trusted) != 0 || fstat(fd, &opened) != 0)
        return refusal(file, errno);
    if (trusted.st_ino != opened.st_ino || trusted.st_dev != opened.st_dev)
        return refusal(file, ELOOP);
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
        if (Result<void> good = check_directory(p, path, file, there.get()); !good)
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
    const std::string through = fmt::format("/proc/self/fd/{}", directory->get());
    std::string made = fmt::format("{}/{}.cryo.XXXXXX", through, file.path.substr(slash + 1));
    Fd fd(mkostemp(made.data(), O_CLOEXEC));
    if (!fd)
        return refusal(file, errno);
    return Beside{std::move(fd),
                  std::string(file.path.substr(0, slash)) + made.substr(through.size())};
}

} // namespace cryo::restore
