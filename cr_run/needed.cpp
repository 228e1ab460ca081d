// SPDX-License-Identifier: Apache-2.0
#include "needed.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace {

constexpr uint64_t most_entries = 4096; // of anybody's file that is a program's argument

// An ELF file, of which only the parts looked at are read: programs may have gigabytes of symbols.
class Elf
{
  public:
    explicit Elf(const std::string &path)
    {
        std::error_code ignored;
        if (std::filesystem::is_regular_file(path, ignored)) // opening a pipe may do something
            file_ = cryo::Fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    }

    std::vector<std::string> needed() const
    {
        std::vector<std::string> names;
        Elf64_Ehdr head;
        if (!read(0, head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
            head.e_ident[EI_CLASS] != ELFCLASS64)
            return names;
        std::vector<Elf64_Phdr> segments(head.e_phnum);
        for (size_t i = 0; i < segments.size(); i++) {
            if (!read(head.e_phoff + i * sizeof(Elf64_Phdr), segments[i]))
                return names;
        }
        std::vector<uint64_t> places;
        uint64_t strings = 0;
        const auto table = std::ranges::find(segments, Elf64_Word(PT_DYNAMIC), &Elf64_Phdr::p_type);
        Elf64_Dyn entry;
        for (uint64_t i = 0;
             table != segments.end() && i < most_entries &&
             read(table->p_offset + i * sizeof(entry), entry) && entry.d_tag != DT_NULL;
             i++) {
            if (entry.d_tag == DT_NEEDED)
                places.push_back(entry.d_un.d_val);
            if (entry.d_tag == DT_STRTAB)
                strings = offset_of(segments, entry.d_un.d_ptr);
        }
        for (const uint64_t place : places)
            names.push_back(text(strings + place));
        return names;
    }

  private:
    template <class T>
    bool read(uint64_t at, T &to) const
    {
        return file_ && pread(file_.get(), &to, sizeof(to), static_cast<off_t>(at)) == sizeof(to);
    }
    static uint64_t offset_of(const std::vector<Elf64_Phdr> &segments, uint64_t address)
    {
        for (const Elf64_Phdr &segment : segments) {
            if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                address < segment.p_vaddr + segment.p_filesz)
                return address - segment.p_vaddr + segment.p_offset;
        }
        return address;
    }
    std::string text(uint64_t at) const
    {
        char longest[PATH_MAX];
        const ssize_t n = pread(file_.get(), longest, sizeof(longest), static_cast<off_t>(at));
        return n > 0 ? std::string(longest, strnlen(longest, static_cast<size_t>(n))) : "";
    }

    cryo::Fd file_;
};

} // namespace

std::vector<std::string> needed_libraries(const std::string &path)
{
    return Elf(path).needed();
}
