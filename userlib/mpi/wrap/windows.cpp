// SPDX-License-Identifier: Apache-2.0
// Windows: how they are made, and the calls that open and close epochs (rank/windows.hpp).
#include "mpi/wrap/windows.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <new>

namespace cryo::mpi {

using capsule::call;
using rank::Window;
using rank::window_of;

namespace {

struct Made_window {
    int flavor;
    void *base;
    MPI_Aint size;
    int unit;
};

// create(place) calls the library to create the window.
template <class Create>
int make_window(MPI_Comm comm, MPI_Win *win, const Made_window &what, const Create &create)
{
    MPI_Comm companion = MPI_COMM_NULL;
    int result = rank::make_companion(comm, &companion);
    if (result != MPI_SUCCESS)
        return result;
    {
        const rank::Collective turn(companion);
        Made made(win);
        result = done(create(made.place()), made);
        if (result == MPI_SUCCESS && !made.is_something())
            result = MPI_ERR_WIN; // the program's error handler turned the error into a success
    }
    if (result != MPI_SUCCESS) {
        PMPI_Comm_free(&companion);
        return result;
    }
    Window *window = rank::begin_window(*win, companion);
    window->flavor = what.flavor;
    window->base = what.base;
    window->size = what.size;
    window->unit = what.unit;
    return MPI_SUCCESS;
}

bool is_alone(MPI_Comm comm)
{
    int size = 0;
    return call(stock.Comm_size, real_of(comm), &size) == MPI_SUCCESS && size == 1;
}

bool is_near(MPI_Comm comm)
{
    const rank::Collective turn(comm);
    return shares_memory(real_of(comm));
}

// A window in the library's memory, of which only this process's part is mapped again.
int make_in_library(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *place,
                    MPI_Win *win, int flavor)
{
    void *base = nullptr;
    const int result = make_window(comm, win, {flavor, nullptr, size, unit}, [&](MPI_Win *real) {
        return allocate_window(size, unit, real_of(info), real_of(comm), &base, real);
    });
    if (result != MPI_SUCCESS)
        return result;
    Window &window = *window_of(*win);
    if (!map_own(window, base))
        return no_room(comm, static_cast<MPI_Aint>(window.alias_bytes));
    *static_cast<void **>(place) = window.base = in_alias(window, base);
    return result;
}

// A window over Cryo's own memory; or over the library's, where that is preferable.
int make_over_memory(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *place,
                     MPI_Win *win, int flavor)
{
    if (prefers_library_memory(real_of(comm)) && is_near(comm))
        return make_in_library(size, unit, info, comm, place, win, flavor);
    const size_t bytes = size > 0 ? static_cast<size_t>(size) : 1;
    void *memory = capsule::keep(bytes);
    if (memory == nullptr)
        return no_room(comm, size);
    const int result = make_window(comm, win, {flavor, memory, size, unit}, [&](MPI_Win *real) {
        return call(stock.Win_create, memory, size, unit, real_of(info), real_of(comm), real);
    });
    if (result != MPI_SUCCESS) {
        capsule::unkeep(memory, bytes);
        return result;
    }
    object_of(*win)->window = memory;
    object_of(*win)->window_bytes = bytes;
    *static_cast<void **>(place) = memory;
    return MPI_SUCCESS;
}

} // namespace

} // namespace cryo::mpi

using namespace cryo::mpi;
using namespace cryo;
using cryo::capsule::call;
using cryo::mpi::rank::Window;
using cryo::mpi::rank::window_of;

EXPORTED int PMPI_Win_create(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                             MPI_Win *win)
{
    const Inside inside;
    return make_window(comm, win, {MPI_WIN_FLAVOR_CREATE, base, size, unit}, [&](MPI_Win *real) {
        return call(stock.Win_create, base, size, unit, real_of(info), real_of(comm), real);
    });
}
ALIAS(MPI_Win_create, PMPI_Win_create)

EXPORTED int PMPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    const Inside inside;
    return make_window(comm, win, {MPI_WIN_FLAVOR_DYNAMIC, nullptr, 0, 1}, [&](MPI_Win *real) {
        return call(stock.Win_create_dynamic, real_of(info), real_of(comm), real);
    });
}
ALIAS(MPI_Win_create_dynamic, PMPI_Win_create_dynamic)

EXPORTED int PMPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *place,
                               MPI_Win *win)
{
    const Inside inside;
    return make_over_memory(size, unit, info, comm, place, win, MPI_WIN_FLAVOR_ALLOCATE);
}
ALIAS(MPI_Win_allocate, PMPI_Win_allocate)

EXPORTED int PMPI_Win_allocate_shared(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm,
                                      void *place, MPI_Win *win)
{
    const Inside inside;
    if (is_alone(comm)) // the library shares nothing then
        return make_over_memory(size, unit, info, comm, place, win, MPI_WIN_FLAVOR_SHARED);
    void *base = nullptr;
    const int result =
        make_window(comm, win, {MPI_WIN_FLAVOR_SHARED, nullptr, size, unit}, [&](MPI_Win *real) {
            return call(stock.Win_allocate_shared, size, unit, real_of(info), real_of(comm),
                        static_cast<void *>(&base), real);
        });
    if (result != MPI_SUCCESS)
        return result;
    Window &window = *window_of(*win);
    if (!map_alias(window))
        return no_room(comm, static_cast<MPI_Aint>(window.alias_bytes));
    window.base = window.alias != nullptr ? in_alias(window, base) : nullptr;
    *static_cast<void **>(place) = window.base;
    return result;
}
ALIAS(MPI_Win_allocate_shared, PMPI_Win_allocate_shared)

EXPORTED int PMPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *unit, void *place)
{
    const Inside inside;
    const Window *window = window_of(win);
    if (window != nullptr && window->flavor == MPI_WIN_FLAVOR_SHARED && window->peers == 1) {
        *size = window->size;
        *unit = window->unit;
        *static_cast<void **>(place) = window->base;
        return MPI_SUCCESS;
    }
    const int result = call(stock.Win_shared_query, real_of(win), rank, size, unit, place);
    auto **base = static_cast<void **>(place);
    if (result == MPI_SUCCESS && window != nullptr && window->alias != nullptr &&
        capsule::owns(*base))
        *base = in_alias(*window, *base);
    return result;
}
ALIAS(MPI_Win_shared_query, PMPI_Win_shared_query)

EXPORTED int PMPI_Win_free(MPI_Win *win)
{
    const Inside inside;
    Window *window = win != nullptr ? window_of(*win) : nullptr;
    Changed changed(win);
    if (window == nullptr)
        return done(call(stock.Win_free, changed.place()), changed);
    Object *object = window->object;
    int result;
    int said;
    {
        rank::Collective turn(*win);
        rank::finished_all(*window);
        const Heard heard;
        result = turn.over(call(stock.Win_free, changed.place()));
        said = heard.of(result);
    }
    if (said != MPI_SUCCESS)
        return result;
    object->traffic = object->state = nullptr;
    MPI_Comm companion = window->comm;
    rank::end_window(*window);
    done(result, changed);
    return PMPI_Comm_free(&companion);
}
ALIAS(MPI_Win_free, PMPI_Win_free)

EXPORTED int PMPI_Win_attach(MPI_Win win, void *base, MPI_Aint size)
{
    const Inside inside;
    Window *window = window_of(win);
    const Heard heard;
    const int result = call(stock.Win_attach, real_of(win), base, size);
    if (heard.of(result) == MPI_SUCCESS && window != nullptr) {
        void *place = rank::memory().allocate(sizeof(rank::Region), alignof(rank::Region));
        window->regions = new (place) rank::Region{window->regions, base, size};
    }
    return result;
}
ALIAS(MPI_Win_attach, PMPI_Win_attach)

EXPORTED int PMPI_Win_detach(MPI_Win win, const void *base)
{
    const Inside inside;
    Window *window = window_of(win);
    const Heard heard;
    const int result = call(stock.Win_detach, real_of(win), base);
    if (heard.of(result) != MPI_SUCCESS || window == nullptr)
        return result;
    for (rank::Region **at = &window->regions; *at != nullptr; at = &(*at)->next) {
        if ((*at)->base == base) {
            rank::Region *region = *at;
            *at = region->next;
            rank::memory().deallocate(region, sizeof(*region), alignof(rank::Region));
            break;
        }
    }
    return result;
}
ALIAS(MPI_Win_detach, PMPI_Win_detach)

EXPORTED int PMPI_Win_fence(int assert, MPI_Win win)
{
    const Inside inside;
    rank::Collective turn(win);
    Window *window = window_of(win);
    if (window != nullptr)
        rank::finished_all(*window);
    const Heard heard;
    const int result = turn.over(call(stock.Win_fence, assert, real_of(win)));
    if (window != nullptr && heard.of(result) == MPI_SUCCESS)
        window->fenced = (assert &MPI_MODE_NOSUCCEED) == 0;
    return result;
}
ALIAS(MPI_Win_fence, PMPI_Win_fence)

EXPORTED int PMPI_Win_lock(int type, int target, int assert, MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr || !rank::has_target(*window, target))
        return call(stock.Win_lock, type, target, assert, real_of(win));
    const bool alone = type == MPI_LOCK_EXCLUSIVE;
    if (alone)
        rank::open_epoch();
    const Heard heard;
    const int result = call(stock.Win_lock, type, target, assert, real_of(win));
    if (heard.of(result) == MPI_SUCCESS) {
        __atomic_fetch_or(&window->marks[target],
                          alone ? Window::exclusive_lock : Window::shared_lock, __ATOMIC_SEQ_CST);
        window->shared_locks += alone ? 0 : 1;
    } else if (alone) {
        rank::close_epoch();
    }
    return result;
}
ALIAS(MPI_Win_lock, PMPI_Win_lock)

EXPORTED int PMPI_Win_unlock(int target, MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr || !rank::has_target(*window, target))
        return call(stock.Win_unlock, target, real_of(win));
    const rank::Ending ending(window);
    rank::finished(*window, target);
    const Heard heard;
    const int result = call(stock.Win_unlock, target, real_of(win));
    if (heard.of(result) != MPI_SUCCESS)
        return result;
    const uint8_t before =
        __atomic_fetch_and(&window->marks[target], Window::dirty, __ATOMIC_SEQ_CST);
    if ((before & Window::exclusive_lock) != 0)
        rank::close_epoch();
    else if ((before & Window::shared_lock) != 0)
        window->shared_locks--;
    return result;
}
ALIAS(MPI_Win_unlock, PMPI_Win_unlock)

EXPORTED int PMPI_Win_lock_all(int assert, MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    const Heard heard;
    const int result = call(stock.Win_lock_all, assert, real_of(win));
    if (window != nullptr && heard.of(result) == MPI_SUCCESS) {
        window->all_locked = true;
        window->all_assert = assert;
    }
    return result;
}
ALIAS(MPI_Win_lock_all, PMPI_Win_lock_all)

EXPORTED int PMPI_Win_unlock_all(MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    const rank::Ending ending(window);
    if (window != nullptr)
        rank::finished_all(*window);
    const Heard heard;
    const int result = call(stock.Win_unlock_all, real_of(win));
    if (window != nullptr && heard.of(result) == MPI_SUCCESS)
        window->all_locked = false;
    return result;
}
ALIAS(MPI_Win_unlock_all, PMPI_Win_unlock_all)

EXPORTED int PMPI_Win_flush(int target, MPI_Win win)
{
    const Inside inside;
    if (Window *window = window_of(win))
        rank::finished(*window, target);
    return call(stock.Win_flush, target, real_of(win));
}
ALIAS(MPI_Win_flush, PMPI_Win_flush)

EXPORTED int PMPI_Win_flush_all(MPI_Win win)
{
    const Inside inside;
    if (Window *window = window_of(win))
        rank::finished_all(*window);
    return call(stock.Win_flush_all, real_of(win));
}
ALIAS(MPI_Win_flush_all, PMPI_Win_flush_all)

EXPORTED int PMPI_Win_post(MPI_Group group, int assert, MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr)
        return call(stock.Win_post, real_of(group), assert, real_of(win));
    rank::open_epoch();
    const Heard heard;
    const int result = call(stock.Win_post, real_of(group), assert, real_of(win));
    if (heard.of(result) == MPI_SUCCESS)
        rank::expose(*window, group);
    else
        rank::close_epoch();
    return result;
}
ALIAS(MPI_Win_post, PMPI_Win_post)

EXPORTED int PMPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr || window->started)
        return call(stock.Win_start, real_of(group), assert, real_of(win));
    rank::meet_targets(*window, group);
    rank::open_epoch(); // until MPI_Win_complete
    const Heard heard;
    const int result = call(stock.Win_start, real_of(group), assert, real_of(win));
    if (heard.of(result) != MPI_SUCCESS) {
        rank::forget_targets(*window);
        rank::close_epoch();
    }
    return result;
}
ALIAS(MPI_Win_start, PMPI_Win_start)

EXPORTED int PMPI_Win_complete(MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    const Heard heard;
    const int result = call(stock.Win_complete, real_of(win));
    if (window == nullptr || !window->started || heard.of(result) != MPI_SUCCESS)
        return result;
    rank::tell_targets(*window);
    rank::finished_all(*window);
    rank::close_epoch();
    return result;
}
ALIAS(MPI_Win_complete, PMPI_Win_complete)

EXPORTED int PMPI_Win_wait(MPI_Win win)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr || !window->exposed)
        return call(stock.Win_wait, real_of(win));
    rank::unexpose(*window);
    const int result = call(stock.Win_wait, real_of(win));
    rank::close_epoch();
    return result;
}
ALIAS(MPI_Win_wait, PMPI_Win_wait)

EXPORTED int PMPI_Win_test(MPI_Win win, int *flag)
{
    const Inside inside;
    Window *window = window_of(win);
    if (window == nullptr || !window->exposed)
        return call(stock.Win_test, real_of(win), flag);
    *flag = rank::is_unexposed(*window) ? 1 : 0;
    return *flag != 0 ? PMPI_Win_wait(win) : MPI_SUCCESS;
}
ALIAS(MPI_Win_test, PMPI_Win_test)
