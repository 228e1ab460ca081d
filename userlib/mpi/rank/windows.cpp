// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/windows.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/engine.hpp"
#include "mpi/rank/memory.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <new>

namespace cryo::mpi::rank {

using capsule::call;

namespace {

constexpr int post_tag = 1;
constexpr int end_tag = 2;

Window *windows; // the newest; head of the list
capsule::Lock windows_lock;

template <class T>
T *take(size_t count)
{
    if (count == 0)
        return nullptr;
    constexpr size_t each = sizeof(T); // NOLINT(bugprone-sizeof-expression): T may be a handle
    auto *place = static_cast<T *>(memory().allocate(count * each, alignof(T)));
    std::fill_n(place, count, T());
    return place;
}

template <class T>
void give(T *&place, size_t count)
{
    constexpr size_t each = sizeof(T); // NOLINT(bugprone-sizeof-expression): T may be a handle
    if (place != nullptr)
        memory().deallocate(place, count * each, alignof(T));
    place = nullptr;
}

// The window ranks of a group's members.
int *ranks_of(const Window &window, MPI_Group group, int &count)
{
    MPI_Group all = nullptr;
    call(stock.Group_size, mpi::real_of(group), &count);
    call(stock.Comm_group, mpi::real_of(window.comm), &all);
    const auto size = static_cast<size_t>(count);
    int *here = take<int>(size);
    int *there = take<int>(size);
    for (int i = 0; i < count; i++)
        here[i] = i;
    call(stock.Group_translate_ranks, mpi::real_of(group), count, static_cast<const int *>(here),
         all, there);
    call(stock.Group_free, &all);
    give(here, size);
    return there;
}

void say(const Window &window, const int *ranks, int count, int tag)
{
    for (int i = 0; i < count; i++)
        PMPI_Send(nullptr, 0, MPI_BYTE, ranks[i], tag, window.comm);
}

} // namespace

int make_companion(MPI_Comm comm, MPI_Comm *companion)
{
    Collective turn(comm);
    MPI_Group all = nullptr;
    Made made(companion);
    int result = call(stock.Comm_group, mpi::real_of(comm), &all);
    if (result != MPI_SUCCESS)
        return result;
    // Not MPI_Comm_dup, which would copy the program's attributes.
    result = done(call(stock.Comm_create, mpi::real_of(comm), all, made.place()), made);
    call(stock.Group_free, &all);
    return turn.made(result, companion);
}

Window *begin_window(MPI_Win win, MPI_Comm companion)
{
    auto *window = new (memory().allocate(sizeof(Window), alignof(Window))) Window{};
    window->object = object_of(win);
    window->comm = companion;
    call(stock.Comm_size, mpi::real_of(companion), &window->peers);
    window->marks = take<uint8_t>(static_cast<size_t>(window->peers));
    window->object->state = window;
    window->object->traffic = object_of(companion)->traffic;
    const capsule::Hold hold(windows_lock);
    window->older = windows;
    if (windows != nullptr)
        windows->newer = window;
    windows = window;
    return window;
}

void end_window(Window &window)
{
    {
        const capsule::Hold hold(windows_lock);
        if (window.older != nullptr)
            window.older->newer = window.newer;
        (window.newer != nullptr ? window.newer->older : windows) = window.older;
    }
    while (Region *region = window.regions) {
        window.regions = region->next;
        give(region, 1);
    }
    if (window.alias != nullptr)
        capsule::unkeep(window.alias, window.alias_bytes);
    give(window.marks, static_cast<size_t>(window.peers));
    memory().deallocate(&window, sizeof(Window), alignof(Window));
}

void open_epoch()
{
    if (engine_counts)
        engine->rank().collectives().open_epoch();
}

void close_epoch()
{
    if (engine_counts)
        engine->rank().collectives().close_epoch();
}

void touch(Window &window, int target)
{
    const uint8_t before =
        __atomic_fetch_or(&window.marks[target], Window::dirty, __ATOMIC_SEQ_CST);
    if ((before & Window::dirty) == 0 && window.busy++ == 0)
        open_epoch();
}

void finished(Window &window, int target)
{
    if (!has_target(window, target))
        return;
    const auto others = static_cast<uint8_t>(~Window::dirty);
    const uint8_t before = __atomic_fetch_and(&window.marks[target], others, __ATOMIC_SEQ_CST);
    if ((before & Window::dirty) != 0 && --window.busy == 0)
        close_epoch();
}

void finished_all(Window &window)
{
    for (int target = 0; window.busy > 0 && target < window.peers; target++)
        finished(window, target);
}

void expose(Window &window, MPI_Group origins)
{
    window.exposed = true;
    window.origins = ranks_of(window, origins, window.origin_count);
    window.ends = take<MPI_Request>(static_cast<size_t>(window.origin_count));
    for (int i = 0; i < window.origin_count; i++)
        PMPI_Irecv(nullptr, 0, MPI_BYTE, window.origins[i], end_tag, window.comm, &window.ends[i]);
    say(window, window.origins, window.origin_count, post_tag);
}

bool is_unexposed(Window &window)
{
    int all = 0;
    PMPI_Testall(window.origin_count, window.ends, &all, MPI_STATUSES_IGNORE);
    return all != 0;
}

void unexpose(Window &window)
{
    PMPI_Waitall(window.origin_count, window.ends, MPI_STATUSES_IGNORE);
    const auto count = static_cast<size_t>(window.origin_count);
    give(window.origins, count);
    give(window.ends, count);
    window.exposed = false;
}

void meet_targets(Window &window, MPI_Group targets)
{
    window.targets = ranks_of(window, targets, window.target_count);
    for (int i = 0; i < window.target_count; i++)
        PMPI_Recv(nullptr, 0, MPI_BYTE, window.targets[i], post_tag, window.comm,
                  MPI_STATUS_IGNORE);
    window.started = true;
}

void tell_targets(Window &window)
{
    say(window, window.targets, window.target_count, end_tag);
    forget_targets(window);
}

void forget_targets(Window &window)
{
    give(window.targets, static_cast<size_t>(window.target_count));
    window.started = false;
}

void Ending::begin(Window &window)
{
    window.ending++;
    while (window.flushed != 0)
        sys::call(SYS_sched_yield);
}

namespace {

void flush(Window &window)
{
    auto real = static_cast<MPI_Win>(window.object->real);
    if (window.all_locked) {
        finished_all(window);
        call(stock.Win_flush_all, real);
    }
    for (int target = 0; window.shared_locks > 0 && target < window.peers; target++) {
        if (window.marks[target] != (Window::dirty | Window::shared_lock))
            continue;
        finished(window, target);
        call(stock.Win_flush, target, real);
    }
}

} // namespace

void flush_windows()
{
    const capsule::Hold hold(windows_lock);
    for (Window *window = windows; window != nullptr; window = window->older) {
        if (window->busy == 0)
            continue;
        window->flushed++;
        if (window->ending == 0) // otherwise the releasing thread flushes later
            flush(*window);
        window->flushed--;
    }
}

const char *unsettled(const Window &window)
{
    if (window.started || window.exposed || window.busy > 0)
        return "an MPI window in the middle of an epoch";
    for (int target = 0; target < window.peers; target++) {
        if ((window.marks[target] & Window::exclusive_lock) != 0)
            return "an exclusive lock of an MPI window";
    }
    return nullptr;
}

} // namespace cryo::mpi::rank
