// SPDX-License-Identifier: Apache-2.0
//
// Every allocation and every copy from and to user memory inside a command fails once: the first,
// the second, and so on until a call succeeds without a fault. Each time the caller gets an error,
// its structure and descriptors are unchanged, the call succeeds when repeated, and no memory is
// leaked.
// Needs a kernel with fault injection (scripts/vm's debug) and root.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <iostream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "events/listener.hpp"
#include "misuse.hpp"

namespace cryo::test {
namespace {

using namespace std::chrono_literals;

void put(const std::string &file, const std::string &text)
{
    std::ofstream out(file);
    out << text << std::flush;
    EXPECT_TRUE(out) << file;
}

// Makes the nth fallible operation of this thread fail (Documentation/fault-injection).
class Injector
{
  public:
    Injector() : file_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC))
    {
        const std::string debugfs = "/sys/kernel/debug/";
        put(debugfs + "failslab/ignore-gfp-wait", "N\n");
        put(debugfs + "failslab/cache-filter", "N\n");
        put(debugfs + "fail_page_alloc/ignore-gfp-wait", "N\n");
        put(debugfs + "fail_page_alloc/ignore-gfp-highmem", "N\n");
        put(debugfs + "fail_page_alloc/min-order", "0\n");
        for (const char *what : {"failslab", "fail_page_alloc", "fail_usercopy"})
            put(debugfs + what + "/verbose", "0\n");
    }
    bool usable() const { return static_cast<bool>(file_); }

    void arm(unsigned n) const
    {
        if (!set(n))
            abort();
    }
    // Whether an operation has failed since arm().
    bool disarm() const
    {
        char text[16] = {};
        const ssize_t n = pread(file_.get(), text, sizeof(text) - 1, 0);
        // The read itself may have been the nth operation, and so may the write.
        const bool struck = n > 0 && atoi(text) == 0;
        if (!struck && !set(0))
            arm(0);
        return struck;
    }

  private:
    bool set(unsigned n) const
    {
        char text[16];
        const int length = snprintf(text, sizeof(text), "%u", n);
        return pwrite(file_.get(), text, static_cast<size_t>(length), 0) == length;
    }

    Fd file_;
};

std::vector<int> open_descriptors()
{
    std::vector<int> flags(256);
    for (int fd = 0; fd < 256; fd++)
        flags[static_cast<size_t>(fd)] = fcntl(fd, F_GETFD) < 0 ? -1 : fcntl(fd, F_GETFL);
    return flags;
}

// One use of one command.
struct Use {
    std::function<void()> prepare;   // set-up before each call
    std::function<int()> call;       // 0 or −errno
    std::function<bool()> as_before; // state that a failed call must leave as it was
    std::function<void(int)> finish; // repeats the call until it is done, and checks the result
};

class Faults : public DeviceTest
{
  protected:
    void SetUp() override
    {
        DeviceTest::SetUp();
        ASSERT_TRUE(injector_.usable()) << "this kernel has no fault injection";
    }

    // The number of calls until one succeeded.
    unsigned exhaust(const Use &use) const
    {
        constexpr unsigned most = 5000;
        for (unsigned n = 1; n <= most; n++) {
            SCOPED_TRACE("the fault is number " + std::to_string(n));
            use.prepare();
            const std::vector<int> descriptors = open_descriptors();
            injector_.arm(n);
            const int rc = use.call();
            const bool struck = injector_.disarm();
            EXPECT_EQ(descriptors, open_descriptors());
            EXPECT_TRUE(rc == 0 || (struck && (rc == -ENOMEM || rc == -EFAULT || rc == -ENOBUFS)))
                << rc << (struck ? "" : " without a fault");
            if (rc != 0) {
                EXPECT_TRUE(use.as_before());
            }
            use.finish(rc);
            if (!struck)
                return n;
            if (HasFailure())
                return 0;
        }
        ADD_FAILURE() << most << " faults were not enough";
        return 0;
    }

    // Repeats the call without faults until it is done.
    template <class Structure>
    void complete(unsigned long number, Structure &structure, uint64_t bytes) const
    {
        for (int i = 0; i < 1000 && structure.done < bytes; i++)
            ASSERT_EQ(0, call(number, &structure));
        ASSERT_EQ(bytes, structure.done);
    }

    Injector injector_;
};

TEST_F(Faults, RootQuestions)
{
    std::vector<Fd> many;
    many.reserve(100);
    for (int i = 0; i < 100; i++) // more than a page of results
        many.emplace_back(fcntl(scratch_file(), F_DUPFD_CLOEXEC, 3));
    Mapping area(64, rw, anon);
    area.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < area.pages(); i += 2)
        area.write(i);
    Mapping answers(4, rw, anon);
    for (size_t i = 0; i < answers.pages(); i++)
        answers.write(i);

    for (const Command &command : commands()) {
        if (command.number != CRYO_IOC_FEATURES && command.number != CRYO_IOC_SCAN &&
            command.number != CRYO_IOC_THREADS && command.number != CRYO_IOC_FILES)
            continue;
        SCOPED_TRACE(command.name);
        std::unique_ptr<Argument> argument;
        const auto make = [&] {
            argument = std::make_unique<Argument>(command);
            if (command.buffer != 0) {
                const uint64_t buffer = answers.start();
                const uint32_t room = 150;
                argument->set(command.buffer, &buffer, sizeof(buffer));
                argument->set(command.room, &room, sizeof(room));
            }
            if (command.number == CRYO_IOC_SCAN) {
                const uint64_t start = area.start(), end = area.end();
                argument->set(offsetof(cryo_scan, start), &start, sizeof(start));
                argument->set(offsetof(cryo_scan, end), &end, sizeof(end));
            }
        };
        make();
        memset(answers.at(0), poison, answers.pages() * page);
        ASSERT_EQ(0, call(command.number, argument->get()));
        const std::vector<char> right(argument->get(), argument->get() + command.size),
            list(answers.at(0), answers.at(0) + (command.buffer != 0 ? answers.pages() * page : 0));
        const unsigned n = exhaust({
            make,
            [&] { return call(command.number, argument->get()); },
            [&] { return argument->unchanged(); },
            [&](int) {
                make();
                memset(answers.at(0), poison, answers.pages() * page);
                ASSERT_EQ(0, call(command.number, argument->get()));
                EXPECT_EQ(0, memcmp(argument->get(), right.data(), right.size()));
                EXPECT_EQ(0, memcmp(answers.at(0), list.data(), list.size()));
            },
        });
        EXPECT_GT(n, 2U) << "no fault was met";
    }
}

TEST_F(Faults, RootEvents)
{
    auto listener = EventListener::join();
    ASSERT_TRUE(listener) << listener.error().text();
    cryo_event event = {};
    event.size = sizeof(event);
    event.operation = CRYO_OP_CHECKPOINT;
    event.phase = CRYO_PHASE_PROGRESS;
    const cryo_event before = event;
    // A fault may hit the listener's copy: that event is lost, and the next one arrives.
    const auto heard = [&](uint64_t number) {
        cryo_event last = event;
        last.bytes_done = number;
        ASSERT_EQ(0, call(CRYO_IOC_EVENT, &last));
        for (int i = 0; i < 3; i++) {
            auto next = listener->next(10s);
            if (!next)
                continue; // the listener was notified of a loss
            ASSERT_TRUE(*next);
            if ((*next)->bytes_done == number)
                return;
        }
        ADD_FAILURE() << "not heard";
    };
    uint64_t number = 1000;
    const unsigned n = exhaust({
        [] {},
        [&] { return call(CRYO_IOC_EVENT, &event); },
        [&] { return memcmp(&before, &event, sizeof(before)) == 0; },
        [&](int) { heard(number++); },
    });
    EXPECT_GT(n, 2U) << "no fault was met";
}

TEST_F(Faults, RootNextPid)
{
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    cryo_nextpid next = {};
    const auto make = [&] {
        next = {};
        next.size = sizeof(next);
        next.pid = 30000;
    };
    const unsigned n = exhaust({
        make,
        [&] { return ioctl(writable->fd(), CRYO_IOC_NEXTPID, &next) == 0 ? 0 : -errno; },
        [&] { return next.pid == 30000 && next.previous == 0; },
        [&](int) {
            make();
            ASSERT_EQ(0, ioctl(writable->fd(), CRYO_IOC_NEXTPID, &next));
        },
    });
    EXPECT_GT(n, 2U) << "no fault was met";
}

// Pages with distinct contents.
void fill_with_numbers(const Mapping &m)
{
    for (size_t i = 0; i < m.pages() * page / 8; i++)
        reinterpret_cast<uint64_t *>(m.at(0))[i] = i * 0x9e3779b97f4a7c15;
}

// The file or pipe that DUMP writes to and RESTORE reads from.
struct Stream {
    Fd in, out;
};

Stream a_file()
{
    Fd file(memfd_create("stream", MFD_CLOEXEC));
    Fd copy(dup(file.get()));
    return {std::move(file), std::move(copy)};
}

Stream a_pipe()
{
    int ends[2] = {-1, -1};
    EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
    return {Fd(ends[0]), Fd(ends[1])};
}

Stream a_socket()
{
    int ends[2] = {-1, -1};
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    return {Fd(ends[0]), Fd(ends[1])};
}

constexpr Stream (*streams[])() = {a_file, a_pipe, a_socket};

TEST_F(Faults, RootDump)
{
    Mapping source(12, rw, anon);
    fill_with_numbers(source);
    const std::vector<cryo_range> ranges = {{source.start(), source.start() + 5 * page},
                                            {source.start() + 5 * page, source.end()}};
    for (const auto &make_stream : streams) {
        SCOPED_TRACE(&make_stream - streams);
        Stream stream;
        cryo_dump dump = {}, before = {};
        const auto make = [&] {
            stream = make_stream();
            dump = {};
            dump.size = sizeof(dump);
            dump.ranges = reinterpret_cast<uintptr_t>(ranges.data());
            dump.nr_ranges = 2;
            dump.fd = stream.out.get();
            before = dump;
        };
        const unsigned n = exhaust({
            make,
            [&] { return call(CRYO_IOC_DUMP, &dump); },
            [&] { return memcmp(&before, &dump, sizeof(dump)) == 0; },
            [&](int rc) {
                if (rc == -EFAULT)
                    make(); // the call may have succeeded without being able to report it
                complete(CRYO_IOC_DUMP, dump, 12 * page);
                if (HasFatalFailure())
                    return;
                std::vector<char> found(12 * page);
                for (size_t at = 0; at < found.size();) {
                    const ssize_t got = read(stream.in.get(), found.data() + at, found.size() - at);
                    ASSERT_GT(got, 0);
                    at += static_cast<size_t>(got);
                }
                EXPECT_EQ(0, memcmp(found.data(), source.at(0), found.size()));
                // Only this process holds the write end.
                stream.out.reset();
                char more = 0;
                EXPECT_EQ(0, read(stream.in.get(), &more, 1));
            },
        });
        EXPECT_GT(n, 3U) << "no fault was met";
    }
}

TEST_F(Faults, RootRestore)
{
    Mapping source(6, rw, anon);
    fill_with_numbers(source);
    Fd mapped(memfd_create("mapped", MFD_CLOEXEC));
    ASSERT_EQ(static_cast<ssize_t>(6 * page), write(mapped.get(), source.at(0), 6 * page));
    constexpr uint64_t at = free_area;
    const std::vector<cryo_region> regions = {
        {at, at + 3 * page, 0, -1, 0, rw, 0},
        {at + 4 * page, at + 6 * page, page, mapped.get(), 0, PROT_READ, 0},
        {at + 6 * page, at + 8 * page, 0, mapped.get(), 0, rw, 0},
        {at + (1 << 30), at + (1 << 30) + 3 * page, 0, -1, 0, rw, CRYO_REGION_SHARED}};
    const std::vector<cryo_range> ranges = {{at, at + 3 * page},
                                            {at + 6 * page, at + 7 * page},
                                            {at + (1 << 30), at + (1 << 30) + 2 * page}};
    constexpr uint64_t pages = 6;
    for (const auto &make_stream : streams) {
        SCOPED_TRACE(&make_stream - streams);
        Stream stream;
        cryo_restore restore = {}, before = {};
        const auto make = [&] {
            stream = make_stream();
            ASSERT_EQ(static_cast<ssize_t>(pages * page),
                      write(stream.out.get(), source.at(0), pages * page));
            before = restore = restore_of(regions, ranges, stream.in.get());
        };
        const unsigned n = exhaust({
            make,
            [&] { return call(CRYO_IOC_RESTORE, &restore); },
            [&] { return memcmp(&before, &restore, sizeof(restore)) == 0; },
            [&](int rc) {
                if (rc == -EFAULT)
                    make(); // the call may have succeeded without being able to report it
                complete(CRYO_IOC_RESTORE, restore, pages * page);
                if (HasFatalFailure())
                    return;
                ASSERT_EQ(regions.size(), restore.mapped);
                uint64_t from = source.start();
                for (const cryo_range &range : ranges) {
                    const size_t length = range.end - range.start;
                    EXPECT_EQ(0, memcmp(reinterpret_cast<void *>(range.start),
                                        reinterpret_cast<void *>(from), length));
                    from += length;
                }
                EXPECT_EQ(0,
                          memcmp(reinterpret_cast<void *>(at + 4 * page), source.at(1), 2 * page));
                EXPECT_EQ(0, memcmp(reinterpret_cast<void *>(at + 7 * page), source.at(1), page));
            },
        });
        EXPECT_GT(n, 3U) << "no fault was met";
    }
    munmap(reinterpret_cast<void *>(at), uint64_t{1} << 31);
}

// A cgroup of processes whose memory, including kernel allocations charged to it, is counted.
class Account
{
  public:
    Account()
    {
        put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
        EXPECT_EQ(0, mkdir(place.c_str(), 0755));
    }
    ~Account() { EXPECT_EQ(0, rmdir(place.c_str())); }
    Account(const Account &) = delete;
    Account &operator=(const Account &) = delete;

    static void join() { put(place + "/cgroup.procs", std::to_string(getpid())); }
    static uint64_t bytes()
    {
        uint64_t now = 0;
        std::ifstream(place + "/memory.current") >> now;
        return now;
    }

  private:
    static inline const std::string place = "/sys/fs/cgroup/cryo-faults";
};

// Fails repeatedly, in a process that then ends: all memory charged to it must be freed.
TEST_F(Faults, RootLeaveNoMemoryBehind)
{
    constexpr uint64_t kept_ready = 640 << 10; // 64 pages in each processor's counter, and a little
    for (const Command &command : commands()) {
        if (command.number == CRYO_IOC_EVENT || command.number == CRYO_IOC_NEXTPID ||
            command.number == CRYO_IOC_FEATURES)
            continue; // allocate nothing on the caller's account
        SCOPED_TRACE(command.name);
        const Account account;
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            Account::join();
            const Injector mine; // an injector belongs to one thread
            std::vector<Fd> many;
            many.reserve(100);
            for (int i = 0; i < 100; i++)
                many.emplace_back(fcntl(scratch_file(), F_DUPFD_CLOEXEC, 3));
            const Mapping pages(16, rw, anon), answers(4, rw, anon);
            Argument argument(command);
            if (command.buffer != 0) {
                const uint64_t buffer = answers.start();
                const uint32_t room = 150;
                argument.set(command.buffer, &buffer, sizeof(buffer));
                argument.set(command.room, &room, sizeof(room));
            }
            const cryo_range range = {pages.start(), pages.end()};
            if (command.number == CRYO_IOC_DUMP)
                *reinterpret_cast<uint64_t *>(argument.get() + offsetof(cryo_dump, ranges)) =
                    reinterpret_cast<uintptr_t>(&range);
            const std::vector<char> asked(argument.get(), argument.get() + command.size);
            for (unsigned round = 0; round < 70; round++) {
                for (unsigned n = 1; n <= 12; n++) {
                    memcpy(argument.get(), asked.data(), asked.size());
                    (void)ftruncate(scratch_file(), 0); // so that writing allocates
                    // Fresh pages, so that a leaked reference pins more memory each time.
                    pages.advise(MADV_DONTNEED);
                    for (size_t i = 0; i < pages.pages(); i++)
                        pages.write(i);
                    mine.arm(n);
                    (void)call(command.number, argument.get());
                    mine.disarm();
                }
            }
            _exit(HasFailure() ? 1 : 0);
        }
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        EXPECT_EQ(0, status);
        // Some of it is freed a moment later.
        const auto end = std::chrono::steady_clock::now() + 60s;
        while (Account::bytes() > kept_ready && std::chrono::steady_clock::now() < end)
            sched_yield();
        EXPECT_LE(Account::bytes(), kept_ready);
        std::cout << command.name << " has left " << Account::bytes() << " bytes\n";
    }
}

} // namespace
} // namespace cryo::test
