// SPDX-License-Identifier: Apache-2.0
//
// Wrong use of /dev/cryo: every command with wrong sizes, wrong pointers, unknown flags and wrong
// files. If an error is returned nothing may be written, never anything behind the structure, and
// the kernel must log nothing (scripts/vm checks).
#include <cstddef>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "misuse.hpp"

namespace cryo::test {
namespace {

class Misuse : public DeviceTest
{};

// The rate of events is limited, and the device is open for reading only.
bool is(int expected, int rc, const Command &command)
{
    return rc == expected ||
           (expected == 0 && ((command.number == CRYO_IOC_EVENT && rc == -EAGAIN) ||
                              (command.number == CRYO_IOC_NEXTPID && rc == -EPERM)));
}

// Whether the module writes into the command's structure.
bool answers(const Command &command)
{
    return command.number != CRYO_IOC_EVENT && command.number != CRYO_IOC_NEXTPID;
}

TEST_F(Misuse, EveryCommandWorksWhenUsedRightly)
{
    for (const Command &command : commands()) {
        SCOPED_TRACE(command.name);
        Argument argument(command);
        EXPECT_TRUE(is(0, call(command.number, argument.get()), command));
        EXPECT_TRUE(argument.kept_inside(command.size));
    }
}

TEST_F(Misuse, WrongSizes)
{
    for (const Command &command : commands()) {
        SCOPED_TRACE(command.name);
        const size_t first = command.first_size != 0 ? command.first_size : command.size;
        for (uint32_t size = 0; size < first; size++) {
            Argument argument(command);
            argument.set_size(size);
            ASSERT_EQ(-EINVAL, call(command.number, argument.get())) << size;
            ASSERT_TRUE(argument.unchanged()) << size;
        }
        for (size_t size : {command.size + 1, command.size + 8, command.size + 64, page / 2}) {
            Argument longer(command, size);
            EXPECT_TRUE(is(0, call(command.number, longer.get()), command))
                << "a newer caller that asks for nothing new, size " << size;
            EXPECT_TRUE(longer.kept_inside(command.size)) << "the unknown part was written";
            Argument newer(command, size);
            newer.set(size - 1, "\1", 1);
            EXPECT_EQ(-E2BIG, call(command.number, newer.get())) << size;
            EXPECT_TRUE(newer.unchanged());
        }
        for (uint32_t size :
             {static_cast<uint32_t>(page) + 1, 1U << 20, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
            Argument argument(command);
            argument.set_size(size);
            EXPECT_EQ(-E2BIG, call(command.number, argument.get())) << size;
            EXPECT_TRUE(argument.unchanged());
        }
    }
}

TEST_F(Misuse, WrongPointers)
{
    Mapping gap(3, rw, anon);
    mprotect(gap.at(1), page, PROT_NONE);
    Mapping read_only(1, rw, anon);
    for (const Command &command : commands()) {
        SCOPED_TRACE(command.name);
        Argument good(command);
        uint64_t addresses[] = {0,
                                1,
                                page - 4,
                                reinterpret_cast<uintptr_t>(gap.at(1)),
                                reinterpret_cast<uintptr_t>(gap.at(1)) - 2,
                                kernel_address,
                                kernel_address - 8,
                                non_canonical,
                                0x7ffffffff000 - 2,
                                0x7ffffffff000,
                                UINT64_MAX,
                                UINT64_MAX - 3};
        for (uint64_t address : addresses) {
            EXPECT_EQ(-EFAULT, call(command.number, reinterpret_cast<void *>(address)))
                << std::hex << address;
        }
        // The size can be read, the rest cannot.
        char *edge = gap.at(1) - 8;
        memcpy(edge, good.get(), 8);
        EXPECT_EQ(-EFAULT, call(command.number, edge));

        // A structure that is not writable.
        mprotect(read_only.at(0), page, rw);
        memcpy(read_only.at(0), good.get(), command.size);
        mprotect(read_only.at(0), page, PROT_READ);
        int rc = call(command.number, read_only.at(0));
        EXPECT_TRUE(is(answers(command) ? -EFAULT : 0, rc, command)) << rc;
        EXPECT_EQ(0, memcmp(read_only.at(0), good.get(), command.size));

        // Unaligned, and across two pages: both are allowed.
        Mapping two(2, rw, anon);
        for (size_t before : {1, 3, 7, 8, 15}) {
            char *across = two.at(1) - before;
            memcpy(across, good.get(), command.size);
            EXPECT_TRUE(is(0, call(command.number, across), command)) << before;
        }
    }
}

TEST_F(Misuse, UnknownFlagsAndReservedMembers)
{
    for (const Command &command : commands()) {
        SCOPED_TRACE(command.name);
        for (size_t offset : command.must_be_zero) {
            for (int bit = 0; bit < 32; bit++) {
                Argument argument(command);
                uint32_t value = 1U << bit;
                argument.set(offset, &value, sizeof(value));
                EXPECT_EQ(-EOPNOTSUPP, call(command.number, argument.get()))
                    << "offset " << offset << " bit " << bit;
                EXPECT_TRUE(argument.unchanged());
            }
        }
    }
}

TEST_F(Misuse, UnknownCommands)
{
    const Command features = commands()[0];
    std::vector<unsigned long> numbers = {0, UINT32_MAX, FIOCLEX + 0x100000};
    for (unsigned nr = 0; nr < 256; nr++) {
        bool known = nr >= CRYO_CMD_FEATURES && nr < CRYO_CMD_FEATURES + commands().size();
        if (!known)
            numbers.push_back(_IO(CRYO_IOCTL_TYPE, nr));
        numbers.push_back(_IO(CRYO_IOCTL_TYPE + 1, nr));
        numbers.push_back(_IOR(CRYO_IOCTL_TYPE, nr, uint32_t));
        numbers.push_back(_IOWR(CRYO_IOCTL_TYPE, nr, cryo_scan));
    }
    for (unsigned long number : numbers) {
        Argument argument(features);
        ASSERT_EQ(-ENOTTY, call(number, argument.get())) << std::hex << number;
        ASSERT_TRUE(argument.unchanged());
    }
}

TEST_F(Misuse, OtherFilesDoNotKnowTheCommands)
{
    int pair[2] = {-1, -1};
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    Fd left(pair[0]), right(pair[1]), event(eventfd(0, 0)), null(open("/dev/null", O_RDWR)),
        file = file_of_pages(1);
    for (const Command &command : commands()) {
        for (const Fd *other : {&left, &event, &null, &file}) {
            Argument argument(command);
            EXPECT_EQ(-1, ioctl(other->get(), command.number, argument.get())) << command.name;
            EXPECT_TRUE(argument.unchanged());
        }
    }
}

TEST_F(Misuse, TheDeviceIsNothingButIoctls)
{
    char byte = 0;
    EXPECT_EQ(-1, read(device().fd(), &byte, 1));
    EXPECT_EQ(-1, write(device().fd(), &byte, 1));
    EXPECT_EQ(MAP_FAILED, mmap(nullptr, page, PROT_READ, MAP_SHARED, device().fd(), 0));
    EXPECT_EQ(-1, fallocate(device().fd(), 0, 0, 1));
    Fd null(open("/dev/null", O_RDWR));
    EXPECT_EQ(-1, splice(device().fd(), nullptr, null.get(), nullptr, 1, 0));
    EXPECT_EQ(-1, ftruncate(device().fd(), 0));
}

TEST_F(Misuse, ADescriptorFromAnotherProcessAsksAboutTheCaller)
{
    // The child's memory differs from the parent's in one page: the child must see its own.
    Mapping m(1, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        m.write(0);
        _exit(classes_of(device(), m)[0].page_class == CRYO_ANON ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(CRYO_UNTOUCHED, classes_of(device(), m)[0].page_class);
}

TEST_F(Misuse, ScanOfWrongRanges)
{
    const Command scan = commands()[1];
    struct {
        uint64_t start, end;
    } ranges[] = {{1, page},
                  {0, page + 1},
                  {page, page},
                  {2 * page, page},
                  {0, UINT64_MAX},
                  {0, UINT64_MAX & ~(page - 1)},
                  {kernel_address, kernel_address + page},
                  {0x7ffffffff000, 0x800000000000},
                  {non_canonical, non_canonical + page},
                  {UINT64_MAX & ~(page - 1), 0}};
    for (auto [start, end] : ranges) {
        Argument argument(scan);
        argument.set(offsetof(cryo_scan, start), &start, 8);
        argument.set(offsetof(cryo_scan, end), &end, 8);
        EXPECT_EQ(-EINVAL, call(CRYO_IOC_SCAN, argument.get())) << std::hex << start << "-" << end;
        EXPECT_TRUE(argument.unchanged());
    }
}

TEST_F(Misuse, ScanIntoWrongBuffers)
{
    const Command scan = commands()[1];
    Mapping buffer(2, rw, anon);
    mprotect(buffer.at(1), page, PROT_NONE);
    Mapping area(64, rw, anon);
    area.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < 64; i += 2)
        area.write(i);

    auto run = [&](uint64_t runs, uint32_t room) {
        Argument argument(scan);
        uint64_t start = area.start(), end = area.end();
        argument.set(offsetof(cryo_scan, start), &start, 8);
        argument.set(offsetof(cryo_scan, end), &end, 8);
        argument.set(offsetof(cryo_scan, runs), &runs, 8);
        argument.set(offsetof(cryo_scan, max_runs), &room, 4);
        int rc = call(CRYO_IOC_SCAN, argument.get());
        if (rc) {
            EXPECT_TRUE(argument.unchanged());
        }
        return rc;
    };
    for (uint64_t runs : {uint64_t{0}, kernel_address, non_canonical, UINT64_MAX,
                          reinterpret_cast<uint64_t>(buffer.at(1)),
                          reinterpret_cast<uint64_t>(buffer.at(1)) - sizeof(cryo_run)})
        EXPECT_EQ(-EFAULT, run(runs, 64)) << std::hex << runs;
    EXPECT_EQ(-EINVAL, run(reinterpret_cast<uintptr_t>(buffer.at(0)), 0));

    // No run beyond the room.
    for (uint32_t room : {1U, 7U, 63U}) {
        memset(buffer.at(0), poison, page);
        ASSERT_EQ(0, run(reinterpret_cast<uintptr_t>(buffer.at(0)), room));
        for (size_t i = room * sizeof(cryo_run); i < page; i++)
            ASSERT_EQ(static_cast<char>(poison), buffer.at(0)[i]) << i;
    }
    // A length far beyond the buffer does no harm as long as the used part fits.
    EXPECT_EQ(0, run(reinterpret_cast<uintptr_t>(buffer.at(0)), UINT32_MAX));
}

TEST_F(Misuse, ListsIntoWrongBuffers)
{
    Mapping buffer(2, rw, anon);
    mprotect(buffer.at(1), page, PROT_NONE);
    const uint32_t items = 4;
    for (const Command &command : commands()) {
        if (command.number != CRYO_IOC_THREADS && command.number != CRYO_IOC_FILES)
            continue;
        SCOPED_TRACE(command.name);
        for (uint64_t address : {uint64_t{0}, kernel_address, non_canonical, UINT64_MAX,
                                 reinterpret_cast<uint64_t>(buffer.at(1)),
                                 reinterpret_cast<uint64_t>(buffer.at(1)) - 8}) {
            Argument argument(command);
            argument.set(command.buffer, &address, 8);
            argument.set(command.room, &items, 4);
            EXPECT_EQ(-EFAULT, call(command.number, argument.get())) << std::hex << address;
            EXPECT_TRUE(argument.unchanged());
        }
        // No room: only the number is returned, whatever the address.
        for (uint64_t address : {uint64_t{0}, kernel_address}) {
            Argument argument(command);
            const uint32_t none = 0;
            argument.set(command.buffer, &address, 8);
            argument.set(command.room, &none, 4);
            EXPECT_EQ(0, call(command.number, argument.get()));
        }
        // Room for one: nothing is written behind it.
        memset(buffer.at(0), poison, page);
        uint64_t address = reinterpret_cast<uint64_t>(buffer.at(0));
        const uint32_t one = 1;
        const size_t item =
            command.number == CRYO_IOC_THREADS ? sizeof(cryo_thread) : sizeof(cryo_file);
        Argument argument(command);
        argument.set(command.buffer, &address, 8);
        argument.set(command.room, &one, 4);
        ASSERT_EQ(0, call(command.number, argument.get()));
        for (size_t i = item; i < page; i++)
            ASSERT_EQ(static_cast<char>(poison), buffer.at(0)[i]) << i;
    }
}

} // namespace
} // namespace cryo::test
