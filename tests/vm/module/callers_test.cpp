// SPDX-License-Identifier: Apache-2.0
//
// Many concurrent callers: processes in which eight threads call every command, correctly and
// incorrectly, while descriptors, mappings, threads and children come and go, and which end by
// execve, by exit and by signals in between. The kernel must log nothing (scripts/vm checks), and
// each process must end on time. CRYO_CALLERS: how many processes; CRYO_SEED: repeats a run.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <poll.h>
#include <random>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>

#include "misuse.hpp"

namespace cryo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t threads_at_once = 8;
constexpr auto at_work = 150ms; // and until this many calls were made:
constexpr uint64_t enough = 8 * threads_at_once;
constexpr int patience_s = 60;

enum class End { exec, exit, main_thread_first, memory, kill };
constexpr std::array all_ends = {End::exec, End::exit, End::main_thread_first, End::memory,
                                 End::kill};

// Shared by the threads of a process.
struct Crowd {
    int device;
    Clock::time_point until;
    End end;
    std::atomic<bool> ended = false;
    std::atomic<uint64_t> calls = 0;
};

class Caller
{
  public:
    Caller(Crowd &crowd, uint64_t seed)
        : crowd_(crowd), random_(seed), all_(commands()), playground_(used + guard, rw, anon)
    {
        mprotect(playground_.at(used), guard * page, PROT_NONE);
    }

    void run()
    {
        while (Clock::now() < crowd_.until || crowd_.calls < enough) {
            call();
            if (random_() % 8 == 0)
                disturb();
        }
        if (!crowd_.ended.exchange(true))
            end();
    }

  private:
    // In pages. An answer written at the end of the playground must not reach whatever lies behind
    // it: that may be the heap of another thread, with its lock.
    static constexpr size_t used = 64, guard = 16;

    uint64_t some_address()
    {
        switch (random_() % 4) {
        case 0:
            return kernel_address;
        case 1:
            return playground_.start() + used * page - random_() % 64;
        default:
            return playground_.start() + random_() % (32 * page);
        }
    }

    void call()
    {
        const Command &command = all_[random_() % all_.size()];
        Argument argument(command);
        if (command.buffer != 0) {
            const uint64_t buffer = some_address();
            const auto room = static_cast<uint32_t>(random_() % 300);
            argument.set(command.buffer, &buffer, sizeof(buffer));
            argument.set(command.room, &room, sizeof(room));
        }
        // A wrong one may unmap memory that the other threads need, which ends them all too soon.
        const bool dangerous = command.number == CRYO_IOC_RESTORE;
        if (random_() % (dangerous ? 64 : 4) == 0) {
            const uint64_t value = random_() % 2 != 0 ? random_() : some_address();
            argument.set(random_() % (command.size / 8) * 8, &value, sizeof(value));
        }
        (void)ioctl(crowd_.device, command.number, argument.get());
        crowd_.calls++;
    }

    // Activity beside the calls.
    void disturb()
    {
        switch (random_() % 6) {
        case 0: {
            Fd copy(dup(scratch_file())), other(open("/dev/null", O_RDONLY | O_CLOEXEC));
            break;
        }
        case 1: {
            const Mapping m(1 + random_() % 600, rw, anon);
            m.write(0);
            break;
        }
        case 2:
            std::thread([] {}).join();
            break;
        case 3:
            in_child([&] {
                call();
                _exit(0);
            });
            break;
        case 4: {
            pid_t child = 0;
            char name[] = "true";
            char *arguments[] = {name, nullptr};
            if (posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) == 0)
                waitpid(child, nullptr, 0);
            break;
        }
        default:
            playground_.advise(MADV_DONTNEED);
        }
    }

    template <class Body>
    static void in_child(const Body &body)
    {
        const pid_t child = fork();
        if (child == 0)
            body();
        if (child > 0)
            waitpid(child, nullptr, 0);
    }

    // Ends the whole process, while the other threads are still in their last calls.
    void end() const
    {
        switch (crowd_.end) {
        case End::exec:
            execl("/bin/true", "true", nullptr);
            break;
        case End::memory:
            munmap(reinterpret_cast<void *>(kept_from), kept_to - kept_from);
            break;
        case End::kill:
            kill(getpid(), SIGKILL);
            break;
        case End::exit:
        case End::main_thread_first:
            break;
        }
        _exit(0);
    }

    Crowd &crowd_;
    std::mt19937_64 random_;
    std::vector<Command> all_;
    Mapping playground_;
};

[[noreturn]] void be_a_crowd(int device, End end, uint64_t seed)
{
    Crowd crowd = {device, Clock::now() + at_work, end};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < threads_at_once; i++)
        threads.emplace_back([&crowd, seed, i] { Caller(crowd, seed + i).run(); });
    if (end == End::main_thread_first)
        syscall(SYS_exit, 0); // ends this thread only
    for (;;)
        pause();
}

// Whether the process ends in time. A stall of the machine uses up one of the one-second waits, not
// the whole patience.
bool ends(const Fd &process)
{
    pollfd ended = {process.get(), POLLIN, 0};
    for (int second = 0; second < patience_s; second++) {
        if (poll(&ended, 1, 1000) == 1)
            return true;
    }
    return false;
}

// Whether orphans of the processes end in time, too: they hold the device open.
bool nobody_is_left()
{
    const auto until = Clock::now() + std::chrono::seconds(patience_s);
    while (Clock::now() < until) {
        const pid_t ended = waitpid(-1, nullptr, WNOHANG);
        if (ended < 0)
            return errno == ECHILD;
        if (ended == 0)
            std::this_thread::sleep_for(1ms);
    }
    return false;
}

// Where the process's threads are, for a message.
std::string whereabouts(pid_t process)
{
    std::string text;
    const std::string tasks = "/proc/" + std::to_string(process) + "/task/";
    for (const auto &task : std::filesystem::directory_iterator(tasks)) {
        for (const char *what : {"comm", "wchan", "syscall"}) {
            std::string line;
            std::getline(std::ifstream(task.path() / what), line);
            text += line + " ";
        }
        text += "\n";
    }
    return text;
}

class Callers : public DeviceTest
{};

TEST_F(Callers, StormThatEndsInEveryWay)
{
    const char *rounds_text = getenv("CRYO_CALLERS"), *seed_text = getenv("CRYO_SEED");
    const long rounds = rounds_text != nullptr ? atol(rounds_text) : 15;
    const uint64_t seed =
        seed_text != nullptr ? strtoull(seed_text, nullptr, 10) : std::random_device()();
    SCOPED_TRACE("CRYO_SEED=" + std::to_string(seed));
    auto writable = Device::open(Device::Access::ReadWrite);
    ASSERT_TRUE(writable) << writable.error().text();
    ASSERT_EQ(0, prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
    scratch_file(); // made once here, not by threads that race with forks
    std::map<End, int> came_to_it;
    for (long i = 0; i < rounds; i++) {
        const End end = all_ends[static_cast<size_t>(i) % all_ends.size()];
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            be_a_crowd(writable->fd(), end, seed + static_cast<uint64_t>(i) * threads_at_once);
        Fd process(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
        ASSERT_TRUE(process);
        EXPECT_TRUE(ends(process)) << "round " << i << " goes on:\n" << whereabouts(child);
        kill(child, SIGKILL);
        EXPECT_TRUE(ends(process)) << "round " << i << " cannot be killed";
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        const bool as_meant =
            end == End::memory ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV
            : end == End::kill ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                               : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        came_to_it[end] += as_meant;
        ASSERT_TRUE(nobody_is_left()) << "round " << i;
    }
    // A wrong RESTORE may have ended a process early, but not each time.
    if (rounds >= static_cast<long>(3 * all_ends.size())) {
        for (End end : all_ends)
            EXPECT_GE(came_to_it[end], 1) << static_cast<int>(end);
    }
}

} // namespace
} // namespace cryo::test
