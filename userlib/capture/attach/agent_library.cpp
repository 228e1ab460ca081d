// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/agent_library.hpp"

#include "capture/attach/remote_memory.hpp"
#include "look/address_range.hpp"

#include <algorithm>
#include <cerrno>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace cryo::capture {

namespace {

constexpr uint64_t page_mask = 4095;
constexpr size_t head_size = 1024; // with the headers and the build-id

bool read_at(const Fd &file, uint64_t offset, void *to, size_t size)
{
    return pread(file.get(), to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

int prot_of(uint32_t flags)
{
    return ((flags & PF_R) != 0 ? PROT_READ : 0) | ((flags & PF_W) != 0 ? PROT_WRITE : 0) |
           ((flags & PF_X) != 0 ? PROT_EXEC : 0);
}

} // namespace

Result<AgentLibrary> AgentLibrary::read(const std::string &path)
{
    const auto incomplete = [&](const std::string &why) {
        return Error(ENOENT,
                     fmt::format("the installation of Cryo is not complete: {}: {}", path, why));
    };
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        return incomplete(strerror(errno));
    AgentLibrary library;
    library.path = path;
    library.head.resize(head_size);
    struct stat status;
    Elf64_Ehdr header;
    if (fstat(file.get(), &status) != 0 || !read_at(file, 0, &header, sizeof(header)) ||
        !read_at(file, 0, library.head.data(), head_size) || header.e_type != ET_DYN)
        return incomplete("it is not the agent");
    library.device = status.st_dev;
    library.inode = status.st_ino;
    library.entry = header.e_entry;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr one;
        if (!read_at(file, header.e_phoff + i * sizeof(one), &one, sizeof(one)))
            return incomplete("it is not the agent");
        if (one.p_type != PT_LOAD)
            continue;
        library.segments.push_back(
            {one.p_vaddr, one.p_offset, one.p_filesz, one.p_memsz, prot_of(one.p_flags)});
        library.span = std::max(library.span, (one.p_vaddr + one.p_memsz + page_mask) & ~page_mask);
    }
    if (library.segments.empty() || library.entry == 0)
        return incomplete("it is not the agent");
    return library;
}

std::optional<RemoteAddress> AgentLibrary::find_in(const Proc &proc) const
{
    const Result<std::string> maps = proc.read("maps");
    std::string_view rest = maps ? std::string_view(*maps) : std::string_view();
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        const std::optional<Run> range = take_range(line);
        const std::string_view rights = take_word(line);
        const std::string_view offset = take_word(line);
        take_word(line); // the device
        const std::string_view number = take_word(line);
        const bool is_named = number == std::to_string(inode) && offset == "00000000";
        if (!range || !rights.starts_with("r--p") || (!is_named && number != "0") ||
            range->end - range->start < head.size())
            continue;
        std::string found(head.size(), 0);
        if (read_memory(proc.pid(), RemoteAddress(range->start), found.data(), found.size()) &&
            found == head)
            return RemoteAddress(range->start);
    }
    return {};
}

} // namespace cryo::capture
