// SPDX-License-Identifier: Apache-2.0
//
// DUMP and RESTORE as a program uses them: the file gets the memory's contents, memory gets the
// file's contents, and every partial call can be continued.
#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "misuse.hpp"

namespace cryo::test {
namespace {

class Move : public DeviceTest
{
  protected:
    // One call.
    int dump(cryo_dump &command, std::vector<cryo_range> &ranges) const
    {
        command.size = sizeof(command);
        command.ranges = reinterpret_cast<uintptr_t>(ranges.data());
        command.nr_ranges = static_cast<uint32_t>(ranges.size());
        return call(CRYO_IOC_DUMP, &command);
    }
};

// Each page begins with its number plus one.
void number_pages(const Mapping &m)
{
    for (size_t i = 0; i < m.pages(); i++)
        *reinterpret_cast<uint64_t *>(m.at(i)) = i + 1;
}

uint64_t number_at(int fd, uint64_t offset)
{
    uint64_t number = 0;
    EXPECT_EQ(ssize_t{8}, pread(fd, &number, 8, static_cast<off_t>(offset)));
    return number;
}

TEST_F(Move, DumpWritesTheRangesOneBehindTheOther)
{
    Mapping m(1200, rw, anon); // more than a batch
    number_pages(m);
    Fd file(memfd_create("out", 0));
    std::vector<cryo_range> ranges = {{m.start() + 700 * page, m.start() + 1200 * page},
                                      {m.start(), m.start() + page},
                                      {m.start() + 5 * page, m.start() + 300 * page}};
    cryo_dump command = {};
    command.fd = file.get();
    command.offset = 3 * page;
    ASSERT_EQ(0, dump(command, ranges));
    ASSERT_EQ((500 + 1 + 295) * page, command.done);
    EXPECT_EQ(0, lseek(file.get(), 0, SEEK_CUR)) << "the descriptor's position was moved";
    for (uint64_t i = 0; i < 500; i++)
        ASSERT_EQ(701 + i, number_at(file.get(), (3 + i) * page));
    EXPECT_EQ(uint64_t{1}, number_at(file.get(), 503 * page));
    for (uint64_t i = 0; i < 295; i++)
        ASSERT_EQ(6 + i, number_at(file.get(), (504 + i) * page));
}

TEST_F(Move, DumpGoesOnInTheMiddleOfAPage)
{
    Mapping m(4, rw, anon);
    for (size_t i = 0; i < 4 * page; i++)
        m.at(0)[i] = static_cast<char>(i * 7 + i / page);
    Fd file(memfd_create("out", 0));
    std::vector<cryo_range> ranges = {{m.start(), m.start() + page}, {m.start() + page, m.end()}};
    for (uint64_t done : {uint64_t{1}, page - 1, page, page + 5, 3 * page + 4000}) {
        ASSERT_EQ(0, ftruncate(file.get(), 0));
        cryo_dump command = {};
        command.fd = file.get();
        command.done = done;
        ASSERT_EQ(0, dump(command, ranges));
        ASSERT_EQ(4 * page, command.done);
        std::vector<char> found(4 * page - done);
        ASSERT_EQ(static_cast<ssize_t>(found.size()),
                  pread(file.get(), found.data(), found.size(), static_cast<off_t>(done)));
        EXPECT_EQ(0, memcmp(found.data(), m.at(0) + done, found.size())) << done;
    }
    cryo_dump beyond = {};
    beyond.fd = file.get();
    beyond.done = 4 * page + 1;
    EXPECT_EQ(-EINVAL, dump(beyond, ranges));
}

TEST_F(Move, DumpTellsHowFarItCame)
{
    Mapping m(4, rw, anon);
    number_pages(m);
    mprotect(m.at(2), page, PROT_NONE);
    Fd file(memfd_create("out", 0));
    std::vector<cryo_range> ranges = {{m.start(), m.end()}};
    cryo_dump command = {};
    command.fd = file.get();
    ASSERT_EQ(0, dump(command, ranges)) << "two pages went through";
    EXPECT_EQ(2 * page, command.done);
    EXPECT_EQ(-EFAULT, dump(command, ranges)) << "memory that the caller may not read";
    EXPECT_EQ(2 * page, command.done);
}

TEST_F(Move, DumpRespectsTheLimitOfFileSizes)
{
    Mapping m(8, rw, anon);
    number_pages(m);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit = {5 * page, 5 * page};
        setrlimit(RLIMIT_FSIZE, &limit);
        Fd file(memfd_create("out", 0));
        std::vector<cryo_range> ranges = {{m.start(), m.end()}};
        cryo_dump command = {};
        command.fd = file.get();
        const bool part = dump(command, ranges) == 0 && command.done == 5 * page;
        _exit(part && dump(command, ranges) == -EFBIG ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

TEST_F(Move, OnlyFilesPipesAndSocketsThatAreOpenForIt)
{
    Mapping m(1, rw, anon);
    m.write(0);
    std::vector<cryo_range> ranges = {{m.start(), m.end()}};
    Fd null(open("/dev/null", O_RDWR)), self(open("/proc/self/exe", O_RDONLY)),
        path(open("/tmp", O_PATH));
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    Fd read_end(ends[0]), write_end(ends[1]);
    const struct {
        int fd, rc;
    } cases[] = {{-1, -EBADF},
                 {9999, -EBADF},
                 {null.get(), -EINVAL},
                 {self.get(), -EBADF},
                 {path.get(), -EBADF},
                 {read_end.get(), -EBADF},
                 {device().fd(), -EINVAL},
                 {write_end.get(), 0}};
    for (const auto &[fd, rc] : cases) {
        cryo_dump command = {};
        command.fd = fd;
        EXPECT_EQ(rc, dump(command, ranges)) << fd;
    }
    read_end.reset();
    signal(SIGPIPE, SIG_IGN);
    cryo_dump command = {};
    command.fd = write_end.get();
    EXPECT_EQ(-EPIPE, dump(command, ranges));
    signal(SIGPIPE, SIG_DFL);
}

// A socket has no positions: with a position only the first byte could be written.
TEST_F(Move, DumpIntoASocketByAndBy)
{
    Mapping m(600, rw, anon); // several batches
    number_pages(m);
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    Fd read_end(ends[0]), write_end(ends[1]);
    std::vector<char> found(600 * page);
    std::thread reader([&] {
        for (size_t at = 0; at < found.size();) {
            const ssize_t n = read(read_end.get(), found.data() + at, found.size() - at);
            if (n <= 0)
                return;
            at += static_cast<size_t>(n);
        }
    });
    std::vector<cryo_range> ranges = {{m.start(), m.start() + page}, {m.start() + page, m.end()}};
    cryo_dump command = {};
    command.fd = write_end.get();
    command.offset = 5; // ignored
    int rc = 0;
    while ((rc = dump(command, ranges)) == 0 && command.done < found.size())
        ;
    EXPECT_EQ(0, rc);
    write_end.reset();
    reader.join();
    EXPECT_EQ(0, memcmp(found.data(), m.at(0), found.size()));
}

void nothing(int) {}

TEST_F(Move, ASignalEndsADumpThatWaits)
{
    Mapping m(64, rw, anon); // more than the pipe holds
    number_pages(m);
    int ends[2];
    ASSERT_EQ(0, pipe(ends));
    Fd read_end(ends[0]), write_end(ends[1]);
    struct sigaction action = {};
    action.sa_handler = nothing;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    std::vector<cryo_range> ranges = {{m.start(), m.end()}};
    cryo_dump command = {};
    command.fd = write_end.get();
    std::atomic<bool> over = false;
    const pthread_t self = pthread_self();
    // Repeated until the call has ended: a signal before the call blocks has no effect.
    std::thread other([&] {
        while (!over) {
            pthread_kill(self, SIGUSR1);
            std::this_thread::yield();
        }
    });
    int rc = 0;
    do {
        rc = dump(command, ranges);
    } while (rc == 0 && command.done < 16 * page);
    EXPECT_TRUE(rc == 0 || rc == -EINTR) << rc;
    over = true;
    other.join();
    std::vector<char> found(command.done);
    for (size_t at = 0; at < found.size();) {
        const ssize_t n = read(read_end.get(), found.data() + at, found.size() - at);
        ASSERT_GT(n, 0);
        at += static_cast<size_t>(n);
    }
    EXPECT_EQ(0, memcmp(found.data(), m.at(0), found.size()));
}

class RestoreMemory : public DeviceTest
{
  protected:
    void TearDown() override { munmap(reinterpret_cast<void *>(free_area), 1 << 30); }
};

TEST_F(RestoreMemory, MapsAndFills)
{
    Mapping source(8, rw, anon);
    number_pages(source);
    Fd file(memfd_create("in", 0));
    ASSERT_EQ(static_cast<ssize_t>(8 * page), write(file.get(), source.at(0), 8 * page));
    std::vector<cryo_region> regions = {
        {free_area, free_area + 4 * page, 0, -1, 0, rw, 0},
        {free_area + 4 * page, free_area + 6 * page, 2 * page, file.get(), 0, PROT_READ, 0},
        {free_area + 9 * page, free_area + 10 * page, 0, file.get(), 0, rw, 0}};
    std::vector<cryo_range> ranges = {{free_area + page, free_area + 3 * page},
                                      {free_area + 9 * page, free_area + 10 * page}};
    cryo_restore restore = restore_of(regions, ranges, file.get());
    restore.offset = 5 * page;
    // Previous memory is unmapped.
    auto *before = reinterpret_cast<char *>(free_area + 20 * page);
    ASSERT_EQ(before, mmap(before, page, rw, anon | MAP_FIXED, -1, 0));
    ASSERT_EQ(0, call(CRYO_IOC_RESTORE, &restore));
    EXPECT_EQ(uint32_t{3}, restore.mapped);
    EXPECT_EQ(3 * page, restore.done);
    const auto at = [](uint64_t number) {
        return *reinterpret_cast<uint64_t *>(free_area + number * page);
    };
    EXPECT_EQ(uint64_t{0}, at(0));
    EXPECT_EQ(uint64_t{6}, at(1));
    EXPECT_EQ(uint64_t{7}, at(2));
    EXPECT_EQ(uint64_t{3}, at(4)) << "the file's page";
    EXPECT_EQ(uint64_t{8}, at(9)) << "the file's page, filled over";
    EXPECT_EQ(uint64_t{1}, number_at(file.get(), 0)) << "a private mapping reached its file";
    unsigned char there;
    EXPECT_EQ(-1, mincore(before, page, &there));
}

TEST_F(RestoreMemory, AdviceCanComeBetweenMappingAndFilling)
{
    constexpr uint64_t huge = 512; // pages
    Mapping source(2, rw, anon);
    number_pages(source);
    Fd file(memfd_create("in", 0));
    ASSERT_EQ(static_cast<ssize_t>(2 * page), write(file.get(), source.at(0), 2 * page));
    std::vector<cryo_region> regions = {{free_area, free_area + 2 * huge * page, 0, -1, 0, rw, 0}};
    std::vector<cryo_range> ranges = {{free_area, free_area + page},
                                      {free_area + huge * page, free_area + (huge + 1) * page}};
    cryo_restore restore = restore_of(regions, ranges, file.get());
    restore.nr_ranges = 0;
    ASSERT_EQ(0, call(CRYO_IOC_RESTORE, &restore));
    ASSERT_EQ(uint32_t{1}, restore.mapped);
    auto *memory = reinterpret_cast<char *>(free_area);
    madvise(memory, 2 * huge * page, MADV_NOHUGEPAGE); // fails on a kernel without huge pages
    memory[5 * page] = 'k';
    restore.nr_ranges = 2;
    ASSERT_EQ(0, call(CRYO_IOC_RESTORE, &restore));
    EXPECT_EQ(2 * page, restore.done);
    EXPECT_EQ('k', memory[5 * page]) << "the second call mapped anew";
    EXPECT_EQ(uint64_t{1}, *reinterpret_cast<uint64_t *>(free_area));
    EXPECT_EQ(uint64_t{2}, *reinterpret_cast<uint64_t *>(free_area + huge * page));
    std::vector<unsigned char> there(2 * huge);
    ASSERT_EQ(0, mincore(memory, 2 * huge * page, there.data()));
    EXPECT_EQ(3, std::ranges::count_if(there, [](unsigned char one) { return (one & 1) != 0; }));
}

TEST_F(RestoreMemory, FillsFromASocketByAndBy)
{
    Mapping source(8, rw, anon);
    number_pages(source);
    int ends[2];
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    Fd read_end(ends[0]), write_end(ends[1]);
    std::vector<cryo_region> regions = {{free_area, free_area + 8 * page, 0, -1, 0, rw, 0}};
    std::vector<cryo_range> ranges = {{free_area, free_area + 3 * page},
                                      {free_area + 4 * page, free_area + 8 * page}};
    cryo_restore restore = restore_of(regions, ranges, read_end.get());
    restore.offset = 5; // ignored
    // In two parts, cut inside a page.
    const size_t first = 5 * page + 7, all = 7 * page;
    ASSERT_EQ(static_cast<ssize_t>(first), write(write_end.get(), source.at(0), first));
    std::atomic<bool> over = false;
    std::thread later([&] {
        // Once the first part has been read.
        for (int unread = 1; unread > 0 && !over;)
            ioctl(read_end.get(), FIONREAD, &unread);
        EXPECT_EQ(static_cast<ssize_t>(all - first),
                  write(write_end.get(), source.at(0) + first, all - first));
    });
    int rc = 0;
    while ((rc = call(CRYO_IOC_RESTORE, &restore)) == 0 && restore.done < all)
        ;
    over = true;
    later.join();
    ASSERT_EQ(0, rc);
    EXPECT_EQ(0, memcmp(reinterpret_cast<void *>(free_area), source.at(0), 3 * page));
    EXPECT_EQ(0, memcmp(reinterpret_cast<void *>(free_area + 4 * page), source.at(3), 4 * page));
}

TEST_F(RestoreMemory, AFileThatEndsTooEarly)
{
    Fd file(memfd_create("in", 0));
    ASSERT_EQ(0, ftruncate(file.get(), static_cast<off_t>(page)));
    std::vector<cryo_region> regions = {{free_area, free_area + 4 * page, 0, -1, 0, rw, 0}};
    std::vector<cryo_range> ranges = {{free_area, free_area + 4 * page}};
    cryo_restore restore = restore_of(regions, ranges, file.get());
    ASSERT_EQ(0, call(CRYO_IOC_RESTORE, &restore));
    EXPECT_EQ(page, restore.done);
    EXPECT_EQ(-EIO, call(CRYO_IOC_RESTORE, &restore));
}

TEST_F(RestoreMemory, WhoCouldNotGoOnIsRefused)
{
    std::vector<cryo_region> regions = {{free_area, free_area + page, 0, -1, 0, rw, 0}};
    std::vector<cryo_range> ranges;
    cryo_restore good = restore_of(regions, ranges, -1);
    Mapping elsewhere(1, rw, anon);
    // The code, the stack or the structure itself would be unmapped.
    for (const auto &[start, end] :
         std::vector<std::pair<uint64_t, uint64_t>>{{elsewhere.start(), elsewhere.end()},
                                                    {kept_from, 0x600000000000},
                                                    {0x7f0000000000, kept_to},
                                                    {free_area, free_area + page}}) {
        cryo_restore restore = good;
        restore.keep_start = start;
        restore.keep_end = end;
        EXPECT_EQ(-EINVAL, call(CRYO_IOC_RESTORE, &restore)) << std::hex << start;
    }
    ASSERT_EQ(0, call(CRYO_IOC_RESTORE, &good));
}

TEST_F(RestoreMemory, GainsNothingOverMmap)
{
    // A writable shared mapping of a file that is open for reading; the page at 0; a mapping that
    // exceeds RLIMIT_AS.
    Fd exe(open("/proc/self/exe", O_RDONLY));
    std::vector<cryo_range> none;
    std::vector<cryo_region> shared = {
        {free_area, free_area + page, 0, exe.get(), 0, rw, CRYO_REGION_SHARED}};
    cryo_restore restore = restore_of(shared, none, -1);
    EXPECT_EQ(-EACCES, call(CRYO_IOC_RESTORE, &restore));
    if (getuid() != 0) {
        std::vector<cryo_region> null = {{0, page, 0, -1, 0, rw, 0}};
        restore = restore_of(null, none, -1);
        EXPECT_EQ(-EPERM, call(CRYO_IOC_RESTORE, &restore));
    }
    const rlimit tight = {uint64_t{1} << 36, RLIM_INFINITY};
    rlimit before;
    getrlimit(RLIMIT_AS, &before);
    ASSERT_EQ(0, setrlimit(RLIMIT_AS, &tight));
    std::vector<cryo_region> large = {
        {free_area, free_area + (uint64_t{1} << 40), 0, -1, 0, rw, CRYO_REGION_NORESERVE}};
    restore = restore_of(large, none, -1);
    EXPECT_EQ(-ENOMEM, call(CRYO_IOC_RESTORE, &restore));
    setrlimit(RLIMIT_AS, &before);
}

} // namespace
} // namespace cryo::test
