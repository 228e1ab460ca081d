// SPDX-License-Identifier: Apache-2.0
#include "coord/left_memory.hpp"

#include "base/directory.hpp"
#include "base/lent_mode.hpp"
#include "base/nobodys.hpp"
#include "base/open_found.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo::coord {

bool is_left_memory(std::string_view name, std::string_view job)
{
    const std::string between = fmt::format(".cryo.{}", job);
    const size_t at = name.rfind(between);
    if (job.empty() || at == std::string_view::npos || at == 0)
        return false;
    const std::string_view rest = name.substr(at + between.size());
    return rest.empty() || (rest.size() > 1 && rest.front() == '.' &&
                            rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

bool sweep_left_memory(const std::string &directory, std::string_view job)
{
    const Result<Directory> place = Directory::open(directory);
    const Result<std::vector<std::string>> names =
        place ? place->names() : Result<std::vector<std::string>>(place.error());
    bool all_gone = true;
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        if (!is_left_memory(name, job))
            continue;
        const Result<Found> found = look_at(place->path(name), Links::not_at_end);
        if (!found || !S_ISREG(found->status.st_mode) || found->status.st_uid != geteuid())
            continue;
        constexpr int flags = O_RDWR | O_NONBLOCK;
        const Result<Fd> file = open_lent(*found, flags, [&] { return open_found(*found, flags); });
        // A rank that makes it or finds it has this lock, and looks at the name when it gets it.
        const bool goes = file && flock(file->get(), LOCK_EX | LOCK_NB) == 0 &&
                          is_nobodys(file->get()) && is_named(file->get(), *place, name);
        all_gone = goes && place->remove(name) && all_gone;
    }
    return all_gone;
}

} // namespace cryo::coord
