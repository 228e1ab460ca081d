// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/early_look.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

constexpr size_t page = 4096;
constexpr size_t size = 64 << 20; // enough for an early look to pay

// A process under observation: it makes one change to its memory, and forks a copy of itself, each
// on request.
class Program
{
  public:
    using Change = void (*)(char *memory);

    Program(Change before, Change then)
    {
        if (pipe(orders_) != 0 || pipe(answers_) != 0)
            abort();
        pid_ = fork();
        if (pid_ == 0)
            live(before, then);
        EXPECT_EQ(0, answer()); // its memory is set up
    }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;
    ~Program()
    {
        for (const int fd : {orders_[0], orders_[1], answers_[0], answers_[1]})
            close(fd);
        waitpid(pid_, nullptr, 0);
    }

    Proc proc() const { return Proc(pid_); }
    void change() { order(); }
    Proc copy() { return Proc(order()); } // only after change()

  private:
    pid_t order()
    {
        EXPECT_EQ(1, write(orders_[1], "x", 1));
        return answer();
    }
    pid_t answer()
    {
        pid_t number = -1;
        EXPECT_EQ(ssize_t(sizeof(number)), read(answers_[0], &number, sizeof(number)));
        return number;
    }
    [[noreturn]] void live(Change before, Change then)
    {
        close(orders_[1]); // end of file tells the child that the test is over
        close(answers_[0]);
        // A mapping without neighbours: changing all of it changes no addresses.
        auto *room = static_cast<char *>(
            mmap(nullptr, size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        char *memory = room + page;
        mprotect(memory, size, PROT_READ | PROT_WRITE);
        for (size_t at = 0; at < size; at += page)
            memory[at] = 1;
        before(memory);
        say(0);
        listen();
        then(memory);
        say(0);
        listen();
        const pid_t copy = fork();
        if (copy == 0) {
            listen(); // returns when the test closes its end
            _exit(0);
        }
        say(copy);
        listen();
        _exit(0);
    }
    void say(pid_t number)
    {
        if (write(answers_[1], &number, sizeof(number)) != ssize_t(sizeof(number)))
            _exit(1);
    }
    void listen()
    {
        char order;
        if (read(orders_[0], &order, 1) != 1)
            _exit(0);
    }

    int orders_[2], answers_[2];
    pid_t pid_;
};

void nothing(char *) {}

// The C library's mlock() does nothing under AddressSanitizer.
long lock(const char *memory)
{
    return syscall(SYS_mlock, memory, page);
}

Result<std::string> smaps_of(EarlyLook &look, const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    return status ? look.smaps(proc, *status) : status;
}

struct Seen {
    bool again; // read again during the stop
    bool held;  // as far as comparison with the copy shows
};

Seen look(Program::Change before, Program::Change then)
{
    Program program(before, then);
    const Proc proc = program.proc();
    EarlyLook look = EarlyLook::at(proc);
    program.change();
    const Result<std::string> smaps = smaps_of(look, proc);
    const Result<bool> held = look.held(proc, program.copy());
    EXPECT_TRUE(smaps && held);
    // A full read of smaps contains Rss.
    return {smaps->find("Rss:") != std::string::npos, *held};
}

void expect_noticed(Program::Change change)
{
    const Seen seen = look(nothing, change);
    EXPECT_TRUE(seen.again || !seen.held);
}

} // namespace

TEST(EarlyLook, IsUsedWhereNothingChanges)
{
    const Seen seen = look(nothing, nothing);
    EXPECT_FALSE(seen.again);
    EXPECT_TRUE(seen.held);
}

TEST(EarlyLook, ContentsMayChange)
{
    const Seen seen = look(nothing, [](char *memory) {
        for (size_t at = 0; at < size; at += page)
            memory[at] = 2;
        madvise(memory, 32 * page, MADV_DONTNEED);
    });
    EXPECT_FALSE(seen.again);
    EXPECT_TRUE(seen.held);
}

TEST(EarlyLook, NoticesNewMappings)
{
    expect_noticed([](char *) {
        const void *more =
            mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (more == MAP_FAILED)
            _exit(2);
    });
}

TEST(EarlyLook, NoticesMappingsThatAreGone)
{
    expect_noticed([](char *memory) { munmap(memory + 7 * page, page); });
}

TEST(EarlyLook, NoticesProtections)
{
    expect_noticed([](char *memory) { mprotect(memory, size, PROT_READ); });
}

TEST(EarlyLook, NoticesWhatIsLeftOutOfCopies)
{
    expect_noticed([](char *memory) { madvise(memory, size, MADV_DONTFORK); });
}

TEST(EarlyLook, NoticesWhatIsWipedInCopies)
{
    expect_noticed([](char *memory) { madvise(memory, size, MADV_WIPEONFORK); });
}

TEST(EarlyLook, NoticesAdviceThatHasNoOtherTrace)
{
    expect_noticed([](char *memory) { madvise(memory, size, MADV_DONTDUMP); });
    expect_noticed([](char *memory) { madvise(memory, size, MADV_SEQUENTIAL); });
    expect_noticed([](char *memory) { madvise(memory, size, MADV_NOHUGEPAGE); });
}

// An ordinary user may not be able to lock more than a page.
TEST(EarlyLook, NoticesLockedMemory)
{
    expect_noticed([](char *memory) {
        mprotect(memory - page, page, PROT_READ | PROT_WRITE); // changes the mappings as well
        if (lock(memory - page) != 0)
            _exit(2);
    });
    const Seen seen = look(
        [](char *memory) {
            munmap(memory + page, page); // leaves the first page mapped
        },
        [](char *memory) {
            if (lock(memory) != 0)
                _exit(2);
        });
    EXPECT_TRUE(seen.again);
}

namespace {

// For a program that changes its memory after the early look, and says that it has not.
bool held_afterwards(Program::Change change)
{
    Program program(nothing, change);
    const Proc proc = program.proc();
    EarlyLook look = EarlyLook::at(proc);
    EXPECT_TRUE(smaps_of(look, proc));
    look.hear(UINT64_MAX);
    EXPECT_TRUE(look.can_wait());
    program.change();
    const Result<bool> held = look.held_afterwards(proc, {});
    EXPECT_TRUE(held);
    return *held;
}

} // namespace

TEST(EarlyLook, CanWaitIfThereWasNoAdviceSince)
{
    constexpr uint64_t second = 1'000'000'000;
    Program program(nothing, nothing);
    EarlyLook look = EarlyLook::at(program.proc());
    look.hear(3600 * second);
    EXPECT_FALSE(look.can_wait()); // the look has not been used yet
    ASSERT_TRUE(smaps_of(look, program.proc()));
    EXPECT_TRUE(look.can_wait());
    look.hear(0);
    EXPECT_FALSE(look.can_wait());
    look.hear(1000); // the look began more than 1000 ns ago
    EXPECT_FALSE(look.can_wait());
    EarlyLook none;
    none.hear(3600 * second);
    EXPECT_FALSE(none.can_wait());
}

TEST(EarlyLook, IsCheckedWhenTheProgramRunsAgain)
{
    EXPECT_TRUE(held_afterwards(nothing));
    for (const int advice : {MADV_DONTDUMP, MADV_SEQUENTIAL, MADV_NOHUGEPAGE, MADV_DONTFORK}) {
        static int chosen;
        chosen = advice;
        EXPECT_FALSE(held_afterwards([](char *memory) { madvise(memory, size, chosen); }));
    }
}

TEST(EarlyLook, MappingsMayComeAndGoWhenTheProgramRunsAgain)
{
    EXPECT_TRUE(held_afterwards([](char *memory) {
        munmap(memory, 7 * page);
        if (mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            _exit(2);
    }));
}

TEST(EarlyLook, AgreesOnMappingsThatAreInBoth)
{
    const std::string one = "1000-2000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me ac\n";
    const std::string advised = "1000-2000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me dd ac\n";
    const std::string other = "3000-4000 rw-p 00000000 00:00 0\nVmFlags: rd wr mr mw me ac\n";
    EXPECT_TRUE(agree(one, one));
    EXPECT_FALSE(agree(one, advised));
    EXPECT_FALSE(agree(one + other, advised + other));
    EXPECT_FALSE(agree(other + one, advised));
    EXPECT_TRUE(agree(one, other));
    EXPECT_TRUE(agree(one, one + other));
    EXPECT_TRUE(agree(one, ""));
    EXPECT_TRUE(agree("", advised));
}

TEST(EarlyLook, IsNotUsedWhereCopiesLackSomething)
{
    for (const int advice : {MADV_DONTFORK, MADV_WIPEONFORK}) {
        static int chosen;
        chosen = advice;
        const Seen seen = look([](char *memory) { madvise(memory, page, chosen); }, nothing);
        EXPECT_TRUE(seen.again);
    }
    const Seen seen = look([](char *memory) { lock(memory); }, nothing);
    EXPECT_TRUE(seen.again);
}

} // namespace cryo::capture
