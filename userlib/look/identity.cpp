// SPDX-License-Identifier: Apache-2.0
#include "look/identity.hpp"

#include "base/open_found.hpp"
#include "image/checksum.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

bool read_at(int fd, uint64_t offset, void *to, size_t size)
{
    return pread(fd, to, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

std::vector<uint8_t> build_id_in(std::span<const char> notes)
{
    const auto round = [](size_t n) { return (n + 3) & ~size_t(3); };
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
        Elf64_Nhdr note;
        memcpy(&note, &notes[at], sizeof(note));
        const size_t name = at + sizeof(note);
        const size_t data = name + round(note.n_namesz);
        const size_t end = data + round(note.n_descsz);
        if (end < at || end > notes.size() + 3 || data + note.n_descsz > notes.size())
            return {};
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(&notes[name], "GNU", 4) == 0) {
            std::vector<uint8_t> id(note.n_descsz);
            memcpy(id.data(), &notes[data], id.size());
            return id;
        }
        at = end;
    }
    return {};
}

std::vector<uint8_t> build_id_of(int fd)
{
    Elf64_Ehdr head;
    if (!read_at(fd, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
        return {};
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr program;
        if (!read_at(fd, head.e_phoff + i * sizeof(program), &program, sizeof(program)))
            return {};
        if (program.p_type != PT_NOTE || program.p_filesz > 65536)
            continue;
        std::vector<char> notes(program.p_filesz);
        if (!read_at(fd, program.p_offset, notes.data(), notes.size()))
            return {};
        if (std::vector<uint8_t> id = build_id_in(notes); !id.empty())
            return id;
    }
    return {};
}

// Nothing but a regular file is opened: opening a device can have effects.
Result<Fd> open_regular(const std::string &path, struct stat &status)
{
    const Result<Found> found = look_at(path, Links::followed);
    if (!found)
        return found.error();
    status = found->status;
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": not a regular file");
    return open_found(*found, O_RDONLY | O_NONBLOCK);
}

} // namespace

Result<Identity> identify(const std::string &path)
{
    struct stat status;
    const Result<Fd> fd = open_regular(path, status);
    if (!fd)
        return fd.error();
    Identity identity;
    identity.size = static_cast<uint64_t>(status.st_size);
    identity.build_id = build_id_of(fd->get());
    if (!identity.build_id.empty())
        return identity;
    image::Hasher hasher;
    std::vector<uint8_t> buffer(1 << 20);
    for (;;) {
        const ssize_t n = read(fd->get(), buffer.data(), buffer.size());
        if (n < 0)
            return Error::from_errno(path, errno);
        if (n == 0)
            break;
        hasher.add(image::Bytes(buffer.data(), static_cast<size_t>(n)));
    }
    identity.content_hash = hasher.digest().bytes();
    return identity;
}

namespace {

enum class Program { other, of_32_bits, statically_linked, of_musl, preloadable };

// `interpreter`: the program header of the dynamic linker's name.
bool is_musl(int fd, const Elf64_Phdr &interpreter)
{
    std::string name(std::min<size_t>(interpreter.p_filesz, PATH_MAX), 0);
    return read_at(fd, interpreter.p_offset, name.data(), name.size()) &&
           name.find("/ld-musl-") != std::string::npos;
}

Program kind_of(const std::string &path)
{
    struct stat status;
    const Result<Fd> fd = open_regular(path, status);
    Elf64_Ehdr head;
    if (!fd || !read_at(fd->get(), 0, &head, sizeof(head)) ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return Program::other;
    if (head.e_ident[EI_CLASS] != ELFCLASS64)
        return Program::of_32_bits;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr program;
        if (read_at(fd->get(), head.e_phoff + i * sizeof(program), &program, sizeof(program)) &&
            program.p_type == PT_INTERP)
            return is_musl(fd->get(), program) ? Program::of_musl : Program::preloadable;
    }
    return Program::statically_linked;
}

} // namespace

std::string why_not_preloadable(const std::string &path)
{
    switch (kind_of(path)) {
    case Program::of_32_bits:
        return "is a 32-bit program";
    case Program::statically_linked:
        return std::string(statically_linked);
    case Program::of_musl:
        return "is linked with musl, another C library than Cryo's";
    default:
        return "";
    }
}

bool is_of_musl(const std::string &path)
{
    return kind_of(path) == Program::of_musl;
}

bool is_preloadable(const std::string &path)
{
    return kind_of(path) == Program::preloadable;
}

} // namespace cryo::capture
