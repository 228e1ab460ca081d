// SPDX-License-Identifier: Apache-2.0
// signalfd(2): a set of signals. Those that wait belong to the process, not to the descriptor.
#include "resources/differences.hpp"
#include "resources/every_kind.hpp"

#include "look/proc.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

Result<void> save(Saving &saving, const Seen &seen)
{
    image::Signalfd record;
    record.open_file = seen.open_file;
    std::string_view mask = capture::field(seen.info, "sigmask");
    record.mask = capture::take_number(mask, 16);
    saving.records().add(record);
    return {};
}

Result<void> open(Opening &opening)
{
    for (const auto &[id, saved] : opening.of<image::Signalfd>()) {
        if (opening.is_opened(id))
            continue;
        const Result<const image::OpenFile *> open_file = opening.named(id, "a signalfd");
        if (!open_file)
            return open_file.error();
        // The C library's function takes its own, larger set.
        Fd made(static_cast<int>(syscall(SYS_signalfd4, -1, &saved.mask, sizeof(saved.mask),
                                         O_CLOEXEC | ((*open_file)->flags & O_NONBLOCK))));
        if (!made)
            return Error::from_errno("making a signalfd", errno);
        if (Result<void> kept = opening.keep(std::move(made), id); !kept)
            return kept;
    }
    return {};
}

Result<void> compare(const Restored &restored)
{
    const auto &saved = restored.saved.of<image::Signalfd>();
    const auto one = saved.find(restored.open_file.id);
    return one == saved.end()
               ? Result<void>()
               : same_line(restored.what, restored.info, "sigmask", 16, one->second.mask);
}

} // namespace

const Kind signalfd_kind = {
    .link = "anon_inode:[signalfd]",
    .has_own_file = true,
    .save = save,
    .open = open,
    .compare = compare,
};

} // namespace cryo::resources
