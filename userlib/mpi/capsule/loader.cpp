// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/loader.hpp"
#include "mpi/capsule/arena.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/capsule/sites.hpp"
#include "sys/raw.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

namespace cryo::capsule {

namespace {

constexpr size_t stack_bytes = size_t{1} << 20;
constexpr size_t most_headers = 32;

struct Image {
    char *bias; // added to addresses in the file
    void *entry;
    void *headers;
    size_t header_count;
    char linker[256]; // PT_INTERP
};

class RawFd
{
  public:
    explicit RawFd(const char *path)
        : fd_(sys::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC))
    {}
    ~RawFd()
    {
        if (fd_ >= 0)
            sys::call(SYS_close, fd_);
    }
    RawFd(const RawFd &) = delete;
    RawFd &operator=(const RawFd &) = delete;
    long get() const { return fd_; }
    bool read(void *buffer, size_t bytes, uint64_t offset) const
    {
        return sys::call(SYS_pread64, fd_, buffer, bytes, offset) == static_cast<long>(bytes);
    }

  private:
    long fd_;
};

uintptr_t page_start(uintptr_t address)
{
    return address & ~(arena::page - 1);
}

int protection(unsigned flags)
{
    return ((flags & PF_R) != 0 ? PROT_READ : 0) | ((flags & PF_W) != 0 ? PROT_WRITE : 0) |
           ((flags & PF_X) != 0 ? PROT_EXEC : 0);
}

bool map_segment(const RawFd &file, const ElfW(Phdr) & segment, char *bias)
{
    const uintptr_t start = page_start(segment.p_vaddr);
    const uintptr_t file_end = segment.p_vaddr + segment.p_filesz;
    const uintptr_t end = segment.p_vaddr + segment.p_memsz;
    if (sys::failed(sys::call(SYS_mmap, bias + start, file_end - start, protection(segment.p_flags),
                              MAP_PRIVATE | MAP_FIXED, file.get(), page_start(segment.p_offset))))
        return false;
    if (end > file_end && (segment.p_flags & PF_W) != 0) {
        // Zero to the page's end, as the kernel does: the dynamic linker allocates from the space
        // after its data.
        const uintptr_t mapped_end = arena::whole_pages(file_end);
        memset(bias + file_end, 0, mapped_end - file_end);
        if (end > mapped_end &&
            sys::failed(sys::call(SYS_mmap, bias + mapped_end, end - mapped_end,
                                  protection(segment.p_flags),
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)))
            return false;
    }
    if ((segment.p_flags & PF_X) != 0)
        return hook_sites(bias + segment.p_vaddr, segment.p_filesz) >= 0;
    return true;
}

bool map_image(const char *path, Image &image, Refusal &why)
{
    RawFd file(path);
    ElfW(Ehdr) header;
    if (file.get() < 0)
        return refuse(why, "%s: %s; is the installation of Cryo complete?", path,
                      strerrordesc_np(static_cast<int>(-file.get())));
    if (!file.read(&header, sizeof(header), 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_machine != EM_X86_64 || header.e_type != ET_DYN || header.e_phnum > most_headers)
        return refuse(why, "%s is not a position-independent program for x86-64", path);
    ElfW(Phdr) headers[most_headers];
    if (!file.read(headers, header.e_phnum * sizeof(headers[0]), header.e_phoff))
        return refuse(why, "%s: its program headers cannot be read", path);

    uintptr_t end = 0;
    for (size_t i = 0; i < header.e_phnum; i++) {
        if (headers[i].p_type == PT_LOAD)
            end = headers[i].p_vaddr + headers[i].p_memsz;
    }
    image.bias = arena::take(end, arena::Zone::Near);
    if (image.bias == nullptr)
        return refuse(why, "no room for %s in the capsule's addresses", path);
    image.linker[0] = 0;
    for (size_t i = 0; i < header.e_phnum; i++) {
        const ElfW(Phdr) &segment = headers[i];
        if (segment.p_type == PT_LOAD && !map_segment(file, segment, image.bias))
            return refuse(why,
                          "%s cannot be mapped, or its code cannot be made writable to hook its "
                          "system calls (a security policy may forbid it)",
                          path);
        if (segment.p_type == PT_INTERP && segment.p_filesz < sizeof(image.linker) &&
            !file.read(image.linker, segment.p_filesz, segment.p_offset))
            return refuse(why, "%s: its dynamic linker's name cannot be read", path);
    }
    image.entry = image.bias + header.e_entry;
    image.headers = image.bias + header.e_phoff;
    image.header_count = header.e_phnum;
    return true;
}

// The initial stack that the kernel gives a new process, written from the top downwards.
class Stack
{
  public:
    explicit Stack(char *bottom) : top_(bottom + stack_bytes) {}

    char *text(const char *string)
    {
        const size_t bytes = strlen(string) + 1;
        top_ -= bytes;
        return static_cast<char *>(memcpy(top_, string, bytes));
    }
    // `words` will be the lowest data on the stack, and the stack pointer a multiple of 16.
    uint64_t *words(size_t count)
    {
        top_ = reinterpret_cast<char *>(
            (reinterpret_cast<uintptr_t>(top_) - count * sizeof(uint64_t)) & ~uintptr_t{15});
        return reinterpret_cast<uint64_t *>(top_);
    }

  private:
    char *top_;
};

uint64_t word(const void *pointer)
{
    return reinterpret_cast<uint64_t>(pointer);
}

// Facts from the kernel about this machine and process, which hold for the capsule as well.
constexpr uint64_t inherited[] = {AT_SYSINFO_EHDR, AT_HWCAP,    AT_PAGESZ,     AT_CLKTCK, AT_UID,
                                  AT_EUID,         AT_GID,      AT_EGID,       AT_SECURE, AT_RANDOM,
                                  AT_HWCAP2,       AT_PLATFORM, AT_MINSIGSTKSZ};

bool starts_with(const char *string, const char *prefix)
{
    return strncmp(string, prefix, strlen(prefix)) == 0;
}

// No restartable sequences: the kernel registers one area per thread, and the program has it. No
// memory hooks, and no caches that need them: they do not see the program's munmap.
constexpr const char *settings[] = {
    "CRYO_CAPSULE_OPEN=1", // for mca_hook_cryo.so
    "OMPI_MCA_mpi_leave_pinned=0", "OMPI_MCA_mpi_leave_pinned_pipeline=0",
    "OMPI_MCA_memory=^patcher",    "OMPI_MCA_opal_signal=",
    "UCX_MEM_EVENTS=no",           "UCX_MEM_MMAP_HOOK_MODE=none",
};
constexpr char tunables[] = "GLIBC_TUNABLES=";
constexpr char without_rseq[] = "glibc.pthread.rseq=0";

bool is_replaced(const char *variable)
{
    if (starts_with(variable, "LD_PRELOAD=") || starts_with(variable, tunables))
        return true;
    for (const char *setting : settings) {
        const size_t name = static_cast<size_t>(strchr(setting, '=') - setting) + 1;
        if (strncmp(variable, setting, name) == 0)
            return true;
    }
    return false;
}

char *tunables_text(Stack &stack, char *const *environment)
{
    char text[1024];
    char *end = stpcpy(stpcpy(text, tunables), without_rseq);
    for (char *const *variable = environment; *variable != nullptr; variable++) {
        const char *value = *variable + sizeof(tunables) - 1;
        if (starts_with(*variable, tunables) &&
            strlen(value) + 2 < sizeof(text) - static_cast<size_t>(end - text)) {
            *end++ = ':';
            end = stpcpy(end, value);
        }
    }
    return stack.text(text);
}

bool build_stack(const Image &program, const Image &linker, const char *path, const char *argument,
                 char *const *environment, void *&stack_pointer, Refusal &why)
{
    char *bottom = arena::take(stack_bytes, arena::Zone::Far);
    if (bottom == nullptr ||
        sys::failed(sys::call(SYS_mmap, bottom, stack_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)))
        return refuse(why, "no memory for the capsule's stack");
    Stack stack(bottom);

    size_t count = 0;
    size_t bytes = 0;
    for (; environment[count] != nullptr; count++)
        bytes += strlen(environment[count]) + 1 + sizeof(uint64_t);
    if (bytes > stack_bytes / 2)
        return refuse(why, "the environment of %zu bytes is too large for the capsule", bytes);

    char *name = stack.text(path);
    char *given = stack.text(argument);
    constexpr size_t setting_count = sizeof(settings) / sizeof(settings[0]);
    const size_t most_words =
        8 + count + 1 + setting_count + 2 * (sizeof(inherited) / sizeof(inherited[0]) + 6);
    char *texts_end = tunables_text(stack, environment);
    (void)texts_end;
    // Strings lie above the vectors that point to them, so they are written first.
    auto *list = static_cast<uint64_t *>(keep(most_words * sizeof(uint64_t)));
    if (list == nullptr)
        return refuse(why, "no memory to start the capsule with");
    uint64_t *at = list;
    *at++ = 2;
    *at++ = word(name);
    *at++ = word(given);
    *at++ = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_replaced(environment[i]))
            *at++ = word(stack.text(environment[i]));
    }
    for (const char *setting : settings)
        *at++ = word(stack.text(setting));
    *at++ = word(texts_end);
    *at++ = 0;
    auto fact = [&at](uint64_t type, uint64_t value) {
        *at++ = type;
        *at++ = value;
    };
    for (const uint64_t type : inherited)
        fact(type, getauxval(type));
    fact(AT_BASE, word(linker.bias));
    fact(AT_PHDR, word(program.headers));
    fact(AT_PHENT, sizeof(ElfW(Phdr)));
    fact(AT_PHNUM, program.header_count);
    fact(AT_ENTRY, word(program.entry));
    fact(AT_NULL, 0);

    const auto used = static_cast<size_t>(at - list);
    uint64_t *words = stack.words(used);
    memcpy(words, list, used * sizeof(uint64_t));
    unkeep(list, most_words * sizeof(uint64_t));
    stack_pointer = words;
    return true;
}

} // namespace

bool load_program(const char *path, const char *argument, char *const *environment, Start &start,
                  Refusal &why)
{
    Image program;
    Image linker;
    if (!map_image(path, program, why))
        return false;
    if (program.linker[0] == 0)
        return refuse(why, "%s names no dynamic linker", path);
    if (!map_image(program.linker, linker, why))
        return false;
    start.entry = linker.entry;
    return build_stack(program, linker, path, argument, environment, start.stack, why);
}

} // namespace cryo::capsule
