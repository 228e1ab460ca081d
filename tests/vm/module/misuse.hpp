// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of misuse: every command with a structure that it accepts, and structures in
// memory that reveals every stray write.
//
//     for (const Command &command : commands()) {
//         Argument argument(command);
//         call(command.number, argument.get());
//         EXPECT_TRUE(argument.kept_inside(command.size));
//     }
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <sys/mman.h>
#include <vector>

#include "device_test.hpp"
#include "memory.hpp"

namespace cryo::test {
inline constexpr int rw = PROT_READ | PROT_WRITE;
inline constexpr int anon = MAP_PRIVATE | MAP_ANONYMOUS;
inline constexpr unsigned char poison = 0xa5;
inline constexpr uint64_t kernel_address = 0xffff888000000000;
inline constexpr uint64_t non_canonical = 0x0000900000000000;

// The area where the kernel puts programs, libraries and stacks, and an area far below.
inline constexpr uint64_t kept_from = 0x500000000000;
inline constexpr uint64_t kept_to = 0x7ffffffff000;
inline constexpr uint64_t free_area = 0x400000000000;

// A valid command that makes these regions, and unmaps nothing of this program: it keeps the former
// area. It refers to both lists.
cryo_restore restore_of(std::span<const cryo_region> regions,
                        std::span<const cryo_range> ranges = {}, int fd = 0);

// A 16-page file that commands may write to and read from.
int scratch_file();

// A command with a structure that it accepts.
struct Command {
    const char *name;
    unsigned long number;
    size_t size;
    std::function<void(void *)> fill;
    std::vector<size_t> must_be_zero; // u32 members that are refused with EOPNOTSUPP if not 0
    size_t buffer = 0, room = 0;      // offsets of the address and length of an output array
    size_t first_size = 0;            // size of the structure when the command was new; 0: as now
    size_t descriptor = 0;            // offset of a descriptor that is written to
    uint64_t acting = 0;              // of one that acts: the feature that a seccomp filter takes
};

// Every command of the module.
std::vector<Command> commands();

// A new command is listed by the test of its own, and then runs through every test of misuse:
//
//     const Listed nextpid({"NEXTPID", CRYO_IOC_NEXTPID, ...});
class Listed
{
  public:
    explicit Listed(Command command);
};

// A structure in a page of its own, followed by poison and then by memory that faults.
class Argument
{
  public:
    explicit Argument(const Command &command, size_t size = 0)
        : size_(size ? size : command.size), pages_(3, rw, anon)
    {
        memset(pages_.at(0), poison, 2 * page);
        mprotect(pages_.at(2), page, PROT_NONE);
        memset(get(), 0, size_);
        command.fill(get());
        set_size(static_cast<uint32_t>(size_));
        before_.assign(pages_.at(0), pages_.at(0) + 2 * page);
    }

    char *get() const { return pages_.at(1) + (page - size_) / 2 / 8 * 8; }
    void set_size(uint32_t size)
    {
        memcpy(get(), &size, sizeof(size));
        note();
    }
    void set(size_t offset, const void *value, size_t length)
    {
        memcpy(get() + offset, value, length);
        note();
    }
    void note() { before_.assign(pages_.at(0), pages_.at(0) + 2 * page); }

    bool unchanged() const { return memcmp(pages_.at(0), before_.data(), before_.size()) == 0; }
    // Whether the surroundings of the structure are unchanged.
    bool kept_inside(size_t size) const
    {
        size_t at = static_cast<size_t>(get() - pages_.at(0));
        return memcmp(pages_.at(0), before_.data(), at) == 0 &&
               memcmp(get() + size, before_.data() + at + size, 2 * page - at - size) == 0;
    }

  private:
    size_t size_;
    Mapping pages_;
    std::vector<char> before_;
};

} // namespace cryo::test
