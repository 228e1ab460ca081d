// SPDX-License-Identifier: Apache-2.0
#include "restore/late_seals.hpp"

#include "resources/memfd.hpp"

#include <cerrno>
#include <fcntl.h>

namespace cryo::restore {

Result<void> LateSeals::take(const image::File &file, int fd)
{
    if (file.kind != image::FileKind::memfd || !resources::is_sealed_late(file))
        return {};
    Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!own)
        return Error::from_errno("keeping a memory file until it is sealed", errno);
    all_.push_back({std::move(own), file.seals, std::string(file.link)});
    return {};
}

Result<void> LateSeals::put() const
{
    for (const One &one : all_) {
        if (Result<void> sealed = resources::seal_memory_file(one.fd.get(), one.seals, one.link);
            !sealed)
            return sealed;
    }
    return {};
}

} // namespace cryo::restore
