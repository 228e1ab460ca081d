// SPDX-License-Identifier: Apache-2.0
// Windows across a restart: recreated over the same memory by the same processes, between epochs.
// Shared memory is the library's: each process fills in its own part, and maps all of it where it
// was.
#include "bookmark/comm.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/windows.hpp"
#include "mpi/wrap/wrapper.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;
using rank::Window;

namespace {

Window &window_in(const WindowNote &note)
{
    return *static_cast<Window *>(note.object->state);
}

// While this lives, errors on a window are returned as results (cf. ErrorsReturn).
class WindowErrorsReturn
{
  public:
    explicit WindowErrorsReturn(const Object *win) : win_(win)
    {
        const auto real = static_cast<MPI_Win>(win->real);
        call(stock.Win_get_errhandler, real, &before_);
        if (!has_no_handler(win_, before_))
            call(stock.Win_set_errhandler, real,
                 static_cast<MPI_Errhandler>(object_of(MPI_ERRORS_RETURN)->real));
    }
    ~WindowErrorsReturn()
    {
        if (!has_no_handler(win_, before_))
            call(stock.Win_set_errhandler, static_cast<MPI_Win>(win_->real), before_);
        call(stock.Errhandler_free, &before_);
    }
    WindowErrorsReturn(const WindowErrorsReturn &) = delete;
    WindowErrorsReturn &operator=(const WindowErrorsReturn &) = delete;
    MPI_Errhandler before() const { return before_; }

  private:
    const Object *win_;
    MPI_Errhandler before_ = nullptr;
};

bool is_zero(const char *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

// Whole pages. The library may hand out memory that it has used before, so zeros are not left out;
// but shared memory need not be allocated for them.
void make_zero(char *to, size_t bytes)
{
    if (bytes > 0 && sys::failed(sys::call(SYS_madvise, to, bytes, MADV_REMOVE)))
        memset(to, 0, bytes);
}

void copy_sparsely(char *to, const char *from, size_t bytes)
{
    size_t zeros = 0; // whole pages right before `done`
    for (size_t done = 0; done < bytes;) {
        const size_t rest =
            sys::page_size - reinterpret_cast<uintptr_t>(to + done) % sys::page_size;
        const size_t n = std::min(rest, bytes - done);
        if (n == sys::page_size && is_zero(from + done, n)) {
            zeros += n;
        } else {
            make_zero(to + done - zeros, zeros);
            zeros = 0;
            memcpy(to + done, from + done, n);
        }
        done += n;
    }
    make_zero(to + bytes - zeros, zeros);
}

bool make_shared(Window &window, MPI_Info info, MPI_Comm comm, MPI_Win *made, Why &why)
{
    void *base = nullptr;
    const int result = call(stock.Win_allocate_shared, window.size, window.unit, info, comm,
                            static_cast<void *>(&base), made);
    int error_class = MPI_SUCCESS;
    if (result != MPI_SUCCESS && call(stock.Error_class, result, &error_class) == MPI_SUCCESS &&
        error_class == MPI_ERR_RMA_SHARED)
        return refuse(why, "the processes of a shared window are on several nodes; "
                           "restart all of them on one");
    if (!worked(result, "making a shared window again", why))
        return false;
    bind_object(window.object, *made);
    if (window.alias == nullptr)
        return true;
    if (window.size > 0)
        copy_sparsely(static_cast<char *>(base), static_cast<const char *>(window.base),
                      static_cast<size_t>(window.size));
    if (!map_alias(window) || (window.size > 0 && in_alias(window, base) != window.base))
        return refuse(why, "the MPI library here lays out shared windows in another way; restart "
                           "the program with the library that it had");
    return worked(call(stock.Barrier, comm), "making a shared window again", why);
}

// Recreates a window in the library's memory, if all members are on one node and the memory begins
// at the same offset in a page. `done`: whether it was recreated.
bool make_in_library(Window &window, MPI_Info info, MPI_Comm comm, MPI_Win *made, bool &done,
                     Why &why)
{
    constexpr const char *what = "making a window again";
    void *base = nullptr;
    done = shares_memory(comm);
    if (!done)
        return true;
    if (!worked(allocate_window(window.size, window.unit, info, comm, &base, made), what, why))
        return false;
    const int fits = starts_alike(base, window.base) ? 1 : 0;
    int all_fit = 0;
    if (!worked(call(stock.Allreduce, static_cast<const void *>(&fits),
                     static_cast<void *>(&all_fit), 1,
                     static_cast<MPI_Datatype>(object_of(MPI_INT)->real),
                     static_cast<MPI_Op>(object_of(MPI_MIN)->real), comm),
                what, why))
        return false;
    done = all_fit != 0;
    if (!done)
        return worked(call(stock.Win_free, made), what, why);
    if (window.size > 0)
        copy_sparsely(static_cast<char *>(base), static_cast<const char *>(window.base),
                      static_cast<size_t>(window.size));
    bind_object(window.object, *made);
    if (!map_own(window, base))
        return refuse(why, "no memory for a window of the MPI library");
    return worked(call(stock.Barrier, comm), what, why); // before others may write there
}

bool remake(const WindowNote &note, Why &why)
{
    Window &window = window_in(note);
    const ErrorsReturn quiet(object_of(window.comm));
    auto comm = static_cast<MPI_Comm>(object_of(window.comm)->real);
    auto info = static_cast<MPI_Info>(note.trimmings.info->real);
    MPI_Win made = nullptr;
    if (window.flavor == MPI_WIN_FLAVOR_SHARED && window.peers > 1)
        return make_shared(window, info, comm, &made, why);
    if (window.alias != nullptr && prefers_library_memory(comm)) {
        bool done = false;
        if (!make_in_library(window, info, comm, &made, done, why))
            return false;
        if (done)
            return true;
    }
    const int result =
        window.flavor == MPI_WIN_FLAVOR_DYNAMIC
            ? call(stock.Win_create_dynamic, info, comm, &made)
            : call(stock.Win_create, window.base, window.size, window.unit, info, comm, &made);
    if (!worked(result, "making a window again", why))
        return false;
    bind_object(note.object, made);
    for (const rank::Region *region = window.regions; region != nullptr; region = region->next) {
        if (!worked(call(stock.Win_attach, made, region->base, region->size),
                    "attaching memory to a window again", why))
            return false;
    }
    return true;
}

// Restores the state that the last fence left, and locks that other ranks may hold as well.
bool lock_again(const WindowNote &note, Why &why)
{
    const Window &window = window_in(note);
    auto real = static_cast<MPI_Win>(note.object->real);
    int result = MPI_SUCCESS;
    if (window.fenced)
        result = call(stock.Win_fence, 0, real);
    if (window.all_locked && result == MPI_SUCCESS)
        result = call(stock.Win_lock_all, window.all_assert, real);
    for (int target = 0; result == MPI_SUCCESS && target < window.peers; target++) {
        if ((window.marks[target] & Window::shared_lock) != 0)
            result = call(stock.Win_lock, MPI_LOCK_SHARED, target, 0, real);
    }
    return worked(result, "locking a window again", why);
}

bool trim(const WindowNote &note, Why &why)
{
    auto real = static_cast<MPI_Win>(note.object->real);
    const Trimmings &trimmings = note.trimmings;
    if (trimmings.name != nullptr)
        call(stock.Win_set_name, real, trimmings.name);
    auto handler = static_cast<MPI_Errhandler>(trimmings.handler->real);
    return replay_attributes(note.object, trimmings.attributes, why) &&
           (has_no_handler(note.object, handler) ||
            worked(call(stock.Win_set_errhandler, real, handler),
                   "giving a window its error handler again", why));
}

// Gives the same order at all members: by the id of the window's communicator or, where messages
// are not counted, by its members and the order of creation.
bool comes_before(const WindowNote *a, const WindowNote *b)
{
    const auto *counted_a = static_cast<const bookmark::Comm *>(a->object->traffic);
    const auto *counted_b = static_cast<const bookmark::Comm *>(b->object->traffic);
    if (counted_a != nullptr && counted_b != nullptr)
        return counted_a->id() < counted_b->id();
    const uint64_t mark_a = mark_of(a->ranks, {});
    const uint64_t mark_b = mark_of(b->ranks, {});
    return mark_a != mark_b ? mark_a < mark_b : a->object->made < b->object->made;
}

} // namespace

bool describe_window(Story &story, Object *object, Why &why)
{
    auto *note = story.notes.make<WindowNote>();
    if (note == nullptr)
        return no_memory(why);
    note->object = object;
    if (object->state == nullptr)
        return refuse(why, "an MPI window that Cryo has not seen being made");
    if (const char *what = rank::unsettled(window_in(*note)))
        return refuse(why, "%s", what);
    auto real = static_cast<MPI_Win>(object->real);
    WindowErrorsReturn quiet(object);
    MPI_Group group = nullptr;
    MPI_Info info = nullptr;
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    call(stock.Win_get_name, real, name, &length);
    if (name[0] != 0)
        note->trimmings.name = story.notes.text(name);
    if (!worked(call(stock.Win_get_group, real, &group), "a window", why))
        return false;
    bool done = describe_ranks(story, group, note->ranks, why);
    call(stock.Group_free, &group);
    if (done && (done = worked(call(stock.Win_get_info, real, &info), "a window", why))) {
        done = describe_info(story, info, note->trimmings.info, why);
        call(stock.Info_free, &info);
    }
    story.windows.add(note);
    return done && describe_handler(story, quiet.before(), note->trimmings.handler, why) &&
           describe_attributes(story, object, note->trimmings.attributes, why);
}

bool replay_windows(Story &story, Why &why)
{
    size_t count = 0;
    for (WindowNote *note = story.windows.first(); note != nullptr; note = note->next)
        count++;
    auto **all = story.notes.make<WindowNote *>(count + 1);
    if (all == nullptr)
        return no_memory(why);
    count = 0;
    for (WindowNote *note = story.windows.first(); note != nullptr; note = note->next)
        all[count++] = note;
    std::sort(all, all + count, comes_before);
    for (size_t i = 0; i < count; i++) {
        if (!remake(*all[i], why) || !lock_again(*all[i], why) || !trim(*all[i], why))
            return false;
    }
    return true;
}

} // namespace cryo::mpi
