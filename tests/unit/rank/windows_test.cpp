// SPDX-License-Identifier: Apache-2.0
// Windows of a rank with several threads in MPI: what one thread flushes for a checkpoint while
// another is in the middle of a call. The test plays the library, and its functions let the other
// thread in.
#include "functions.gen.hpp"
#include "mpi/rank/engine.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"

#include <gtest/gtest.h>
#include <thread>

using namespace cryo::mpi;
using rank::Window;

namespace cryo::capsule {

__thread Binding binding;
uint64_t opening = 1;
bool have_fsgsbase = false;
long way_back_offset = 0;

void unkeep(void * /*memory*/, size_t /*bytes*/) {}

} // namespace cryo::capsule

namespace cryo::mpi {

void ready_slowly()
{
    cryo::capsule::binding = {.fs = cryo::capsule::current_fs(), .opened = 1};
}

void Inside::left_late() {}

__thread LastError last_error;

namespace rank {

__thread int depth;
volatile bool must_attend;
unsigned long mpi_calls;
bool engine_counts;
bool several_threads = true;
std::atomic<int> running{0};
Engine *engine;

void stand_still() {}

Memory &memory()
{
    static Memory made;
    return made;
}
void *Memory::do_allocate(size_t bytes, size_t /*alignment*/)
{
    return operator new(bytes);
}
void Memory::do_deallocate(void *memory, size_t /*bytes*/, size_t /*alignment*/)
{
    operator delete(memory);
}

} // namespace rank
} // namespace cryo::mpi

namespace {

constexpr int ranks = 3;
constexpr int target = 1;

// What the library has been asked to do, and hooks that run in between.
struct Library {
    int put;     // operations that it has received
    int flushed; // of these
    int flushes;
    bool unlocking;
    void (*before_put)();
    void (*within_unlock)();
    void (*within_flush)();
};
Library library;

int put(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win)
{
    if (library.before_put != nullptr)
        library.before_put();
    library.put++;
    return MPI_SUCCESS;
}

int flush_all(MPI_Win)
{
    library.flushes++;
    if (library.within_flush != nullptr)
        library.within_flush();
    library.flushed = library.put;
    return MPI_SUCCESS;
}

int flush(int, MPI_Win win)
{
    return flush_all(win);
}

int unlock(int, MPI_Win)
{
    library.unlocking = true;
    if (library.within_unlock != nullptr)
        library.within_unlock();
    library.flushed = library.put;
    return MPI_SUCCESS;
}

class WindowsTest : public testing::Test
{
  protected:
    WindowsTest()
    {
        ready_slowly();
        library = {};
        stock.Comm_size = [](MPI_Comm, int *size) {
            *size = ranks;
            return MPI_SUCCESS;
        };
        stock.Put = put;
        stock.Win_flush = flush;
        stock.Win_flush_all = flush_all;
        stock.Win_lock = [](int, int, int, MPI_Win) { return MPI_SUCCESS; };
        stock.Win_lock_all = [](int, MPI_Win) { return MPI_SUCCESS; };
        stock.Win_unlock = unlock;
        stock.Win_unlock_all = [](MPI_Win which) { return unlock(0, which); };
        win = handle_of<MPI_Win>(&object);
        window = rank::begin_window(win, handle_of<MPI_Comm>(&companion));
    }
    ~WindowsTest() override { rank::end_window(*window); }
    WindowsTest(const WindowsTest &) = delete;
    WindowsTest &operator=(const WindowsTest &) = delete;

    int put_something() { return PMPI_Put(&number, 1, nullptr, target, 0, 1, nullptr, win); }

    Object object = {};
    Object companion = {};
    MPI_Win win;
    Window *window;
    int number = 0;
};

// The library gets the operation after a flush that was meant to complete it.
TEST_F(WindowsTest, AnOperationThatComesAfterAFlushIsFlushed)
{
    for (const bool all : {true, false}) {
        library = {};
        ASSERT_EQ(all ? PMPI_Win_lock_all(0, win) : PMPI_Win_lock(MPI_LOCK_SHARED, target, 0, win),
                  MPI_SUCCESS);
        library.before_put = rank::flush_windows;
        ASSERT_EQ(put_something(), MPI_SUCCESS);
        EXPECT_EQ(library.flushed, 0);
        EXPECT_NE(rank::unsettled(*window), nullptr);
        rank::flush_windows();
        EXPECT_EQ(library.flushed, 1);
        EXPECT_EQ(rank::unsettled(*window), nullptr);
        ASSERT_EQ(all ? PMPI_Win_unlock_all(win) : PMPI_Win_unlock(target, win), MPI_SUCCESS);
        EXPECT_EQ(rank::unsettled(*window), nullptr);
    }
}

// As above, with the program's own flush.
TEST_F(WindowsTest, AnOperationThatComesAfterTheProgramsFlushIsFlushed)
{
    static MPI_Win the_win;
    the_win = win;
    ASSERT_EQ(PMPI_Win_lock_all(0, win), MPI_SUCCESS);
    library.before_put = [] {
        library.before_put = nullptr;
        EXPECT_EQ(PMPI_Win_flush(target, the_win), MPI_SUCCESS);
    };
    ASSERT_EQ(put_something(), MPI_SUCCESS);
    EXPECT_EQ(library.flushed, 0);
    rank::flush_windows();
    EXPECT_EQ(library.flushed, 1);
}

// With one thread, no flush comes in between, and none is superfluous.
TEST_F(WindowsTest, WhatHasBeenFlushedIsNotFlushedAgain)
{
    ASSERT_EQ(PMPI_Win_lock_all(0, win), MPI_SUCCESS);
    ASSERT_EQ(put_something(), MPI_SUCCESS);
    rank::flush_windows();
    rank::flush_windows();
    EXPECT_EQ(library.flushes, 1);
    EXPECT_EQ(rank::unsettled(*window), nullptr);
}

TEST_F(WindowsTest, NoFlushBeginsUnderALockThatIsGivenBack)
{
    static Window *the_window;
    the_window = window;
    for (const bool all : {true, false}) {
        library = {};
        ASSERT_EQ(all ? PMPI_Win_lock_all(0, win) : PMPI_Win_lock(MPI_LOCK_SHARED, target, 0, win),
                  MPI_SUCCESS);
        ASSERT_EQ(put_something(), MPI_SUCCESS);
        library.within_unlock = [] {
            rank::touch(*the_window, target); // as that thread found it
            rank::flush_windows();
            rank::finished(*the_window, target);
        };
        ASSERT_EQ(all ? PMPI_Win_unlock_all(win) : PMPI_Win_unlock(target, win), MPI_SUCCESS);
        EXPECT_EQ(library.flushes, 0);
    }
}

TEST_F(WindowsTest, ALockIsGivenBackAfterAFlushThatHasBegun)
{
    static Window *the_window;
    the_window = window;
    ASSERT_EQ(PMPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_SUCCESS);
    ASSERT_EQ(put_something(), MPI_SUCCESS);
    library.within_flush = [] {
        while (the_window->ending == 0)
            sched_yield();
        EXPECT_FALSE(library.unlocking);
    };
    std::thread other([] {
        ready_slowly();
        rank::flush_windows();
    });
    while (window->flushed == 0)
        sched_yield();
    EXPECT_EQ(PMPI_Win_unlock(target, win), MPI_SUCCESS);
    other.join();
    EXPECT_TRUE(library.unlocking);
    EXPECT_EQ(library.flushes, 1);
}

// The library calls the program's error handler, which turns the error into success.
int forgiven()
{
    last_error = {.depth = rank::depth, .code = MPI_ERR_RMA_SYNC, .left = MPI_SUCCESS};
    return MPI_SUCCESS;
}

TEST_F(WindowsTest, WhatIsRefusedAndForgivenHasNotHappened)
{
    rank::several_threads = false;
    stock.Put = [](const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win) {
        return forgiven();
    };
    EXPECT_EQ(put_something(), MPI_SUCCESS);
    EXPECT_EQ(window->busy, 0U) << "nothing is to be flushed";
    rank::several_threads = true;

    stock.Win_lock = [](int, int, int, MPI_Win) { return forgiven(); };
    EXPECT_EQ(PMPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_SUCCESS);
    EXPECT_EQ(PMPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), MPI_SUCCESS);
    EXPECT_EQ(window->shared_locks, 0U);
    EXPECT_EQ(rank::unsettled(*window), nullptr);

    stock.Win_lock = [](int, int, int, MPI_Win) { return MPI_SUCCESS; };
    stock.Win_unlock = [](int, MPI_Win) { return forgiven(); };
    EXPECT_EQ(PMPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_SUCCESS);
    EXPECT_EQ(PMPI_Win_unlock(target, win), MPI_SUCCESS);
    EXPECT_EQ(window->shared_locks, 1U) << "it is still held";
}

} // namespace
