// SPDX-License-Identifier: Apache-2.0
// The kernel's own pages, the vdso: the program's libraries hold addresses in them.
#include "base/fd.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <asm/prctl.h>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// A read stops where our own vdso ends.
bool is_ours(const std::vector<uint8_t> &saved)
{
    std::vector<uint8_t> ours(saved.size());
    const Fd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
    const ssize_t n = pread(memory.get(), ours.data(), ours.size(),
                            static_cast<off_t>(getauxval(AT_SYSINFO_EHDR)));
    return n == static_cast<ssize_t>(saved.size()) && ours == saved;
}

void map_own(Planning &p)
{
    const image::Memory &m = p.saved.memory;
    Program &program = p.plan.program;
    program.call("mapping the vdso", SYS_arch_prctl,
                 {value(ARCH_MAP_VDSO_64), value(m.vvar_size != 0 ? m.vvar_start : m.vdso_start)});
    // The address is a hint only: setting the present protection again fails if it was not used.
    program.call("mapping the vdso at its place", SYS_mprotect,
                 {value(m.vdso_start), value(m.vdso_size), value(PROT_READ | PROT_EXEC)});
}

template <class T>
bool read_at(const std::vector<uint8_t> &image, uint64_t at, T &to)
{
    if (at > image.size() || image.size() - at < sizeof(T))
        return false;
    memcpy(&to, &image[at], sizeof(T));
    return true;
}

int number_of(std::string_view function)
{
    constexpr std::string_view prefix = "__vdso_";
    if (function.substr(0, prefix.size()) == prefix)
        function.remove_prefix(prefix.size());
    const struct {
        std::string_view name;
        int number;
    } known[] = {
        {"clock_gettime", SYS_clock_gettime},
        {"gettimeofday", SYS_gettimeofday},
        {"time", SYS_time},
        {"getcpu", SYS_getcpu},
        {"clock_getres", SYS_clock_getres},
        {"getrandom", SYS_getrandom},
    };
    for (const auto &[name, number] : known) {
        if (function == name)
            return number;
    }
    return -1;
}

// Writes a system call in the place of each function.
bool put_system_calls(std::vector<uint8_t> &image)
{
    Elf64_Ehdr head;
    if (!read_at(image, 0, head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_shentsize != sizeof(Elf64_Shdr))
        return false;
    const std::vector<uint8_t> old = image;
    bool any = false;
    for (uint64_t i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        Elf64_Shdr names;
        if (!read_at(old, head.e_shoff + i * sizeof(section), section))
            return false;
        if (section.sh_type != SHT_DYNSYM)
            continue;
        if (!read_at(old, head.e_shoff + section.sh_link * sizeof(names), names))
            return false;
        for (uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            if (!read_at(old, section.sh_offset + at, symbol))
                return false;
            if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF)
                continue;
            const uint64_t name_at = names.sh_offset + symbol.st_name;
            const auto end =
                std::find(old.begin() + static_cast<long>(std::min<uint64_t>(name_at, old.size())),
                          old.end(), 0);
            if (end == old.end())
                return false;
            const int number = number_of({reinterpret_cast<const char *>(&old[name_at]),
                                          static_cast<size_t>(end - old.begin()) - name_at});
            // mov $number, %eax; syscall; ret      or      mov $-ENOSYS, %rax; ret
            uint8_t code[8] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0xc3};
            const uint8_t none[8] = {0x48, 0xc7, 0xc0, 0xda, 0xff, 0xff, 0xff, 0xc3};
            memcpy(&code[1], &number, sizeof(number));
            if (symbol.st_value > image.size() || image.size() - symbol.st_value < sizeof(code))
                return false;
            memcpy(&image[symbol.st_value], number < 0 ? none : code, sizeof(code));
            any = true;
        }
    }
    return any;
}

// A thread that was interrupted inside the old functions cannot finish them here.
Result<void> check_threads(Planning &p)
{
    const image::Memory &m = p.saved.memory;
    for (const image::Thread &thread : p.saved.threads()) {
        const uint64_t at =
            thread.sp + offsetof(ucontext_t, uc_mcontext.gregs) + REG_RIP * sizeof(greg_t);
        std::vector<uint8_t> page(image::kPageSize);
        if (Result<void> got = p.image.read_pages(m.object, at / image::kPageSize, page); !got)
            return got;
        uint64_t rip = 0;
        memcpy(&rip, &page[at % image::kPageSize], sizeof(rip));
        if (rip >= m.vdso_start && rip < m.vdso_start + m.vdso_size)
            return Error(
                ENOTSUP,
                fmt::format("thread {} was reading the clock when it was saved, in the vdso of "
                            "another kernel; restart it on that kernel, or take the image again",
                            thread.tid));
    }
    return {};
}

// Private pages in the same place: the old image, so that code that reads
// it finds the same symbols, but each function makes a system call.
Result<void> map_substitute(Planning &p, std::vector<uint8_t> image)
{
    const image::Memory &m = p.saved.memory;
    if (Result<void> none = check_threads(p); !none)
        return none;
    if (!put_system_calls(image))
        return Error(ENOTSUP, "the image was taken on another kernel, whose vdso is not of a known "
                              "form; restart it on that kernel");
    Program &program = p.plan.program;
    const auto map = [&](uint64_t start, uint64_t size, int prot) {
        program.call_exact(
            fmt::format("mapping memory at {:x}, in the place of the vdso", start), SYS_mmap, start,
            {value(start), value(size), value(prot),
             value(MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE), value(-1), value(0)});
    };
    // Zeros in the place of the kernel's data make the old code ask the kernel.
    if (m.vvar_size != 0)
        map(m.vvar_start, m.vvar_size, PROT_READ);
    map(m.vdso_start, m.vdso_size, PROT_READ | PROT_WRITE);
    program.add(
        Do::copy, "writing the vdso's substitute",
        {value(m.vdso_start), program.data(image.data(), image.size()), value(image.size())});
    program.call("protecting the vdso's substitute", SYS_mprotect,
                 {value(m.vdso_start), value(m.vdso_size), value(PROT_READ | PROT_EXEC)});
    p.plan.notices.emplace_back(
        "the image was taken on another kernel: reading the clock takes a system call now");
    return {};
}

} // namespace

Result<void> plan_vdso(Planning &p)
{
    const image::Memory &m = p.saved.memory;
    if (m.vdso_size == 0)
        return {};
    std::vector<uint8_t> saved(m.vdso_size);
    if (Result<void> got = p.image.read_pages(m.object, m.vdso_start / image::kPageSize, saved);
        !got)
        return got;
    if (!is_ours(saved))
        return map_substitute(p, std::move(saved));
    map_own(p);
    return {};
}

} // namespace cryo::restore
