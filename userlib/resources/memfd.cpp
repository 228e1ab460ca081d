// SPDX-License-Identifier: Apache-2.0
#include "resources/memfd.hpp"

#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>

namespace cryo::resources {

namespace {

constexpr std::string_view begin = "/memfd:";

bool is_memfd(const Seen &seen)
{
    return seen.link.starts_with(begin) && seen.link.ends_with(gone);
}

} // namespace

Result<void> save_memory_file(const Seen &seen, image::File &file)
{
    const int seals = fcntl(seen.shared.get(), F_GET_SEALS);
    if (seals < 0)
        return Error::from_errno("asking for the seals of " + seen.link, errno);
    file.seals = static_cast<uint32_t>(seals);
    struct statfs system;
    if (fstatfs(seen.shared.get(), &system) != 0)
        return Error::from_errno("asking where " + seen.link + " is", errno);
    if (system.f_type == HUGETLBFS_MAGIC)
        file.huge_page_size = static_cast<uint64_t>(system.f_bsize);
    return {};
}

unsigned memory_file_flags(const image::File &file)
{
    // Seals are added after the contents; one that forbids all sealing exists from the beginning.
    const bool sealing = file.seals != F_SEAL_SEAL;
    constexpr unsigned no_execution = 8; // MFD_NOEXEC_SEAL, and its seal, since Linux 6.3
    constexpr uint32_t execution_seal = 0x20;
    return MFD_CLOEXEC | (sealing ? MFD_ALLOW_SEALING : 0U) |
           ((file.seals & execution_seal) != 0 ? no_execution : 0U);
}

Result<Fd> make_memory_file(const image::File &file)
{
    const std::string name(file.link);
    Fd made(memfd_create(name.c_str(), memory_file_flags(file)));
    if (!made)
        return Error::from_errno(fmt::format("making memory file {}", name), errno);
    return made;
}

Result<void> seal_memory_file(int fd, uint32_t seals, std::string_view link)
{
    if (seals != 0 && seals != F_SEAL_SEAL && fcntl(fd, F_ADD_SEALS, seals) != 0)
        return Error::from_errno(fmt::format("sealing memory file {}", link), errno);
    return {};
}

bool is_sealed_late(const image::File &file)
{
    return (file.seals & F_SEAL_FUTURE_WRITE) != 0;
}

const Kind memfd_kind = {
    .link = begin,
    .is = is_memfd,
};

} // namespace cryo::resources
