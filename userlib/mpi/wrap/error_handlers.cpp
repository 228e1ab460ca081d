// SPDX-License-Identifier: Apache-2.0
// Error handlers of the program's, for communicators, windows and files.
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <utility>

namespace cryo::mpi {

namespace {

constexpr size_t most = 128;

// The program's handlers are declared with `...`, and are given nothing there.
template <class Handle>
using Handler = void(Handle *, int *, ...);

using FortranHandler = void(MPI_Fint *, MPI_Fint *, ...);

template <class Handle>
Slots<most> handlers;
template <class Handle>
bool is_fortran[most]; // a function is written in one language

template <class Handle>
void handle_at_home(Handler<Handle> *handler, Handle *object, int *code)
{
    handler(object, code, nullptr);
}

void handle_in_fortran(FortranHandler *handler, MPI_Fint *object, MPI_Fint *code)
{
    handler(object, code, nullptr);
}

template <class Handle, size_t slot>
void handle(Handle *object, int *code, ...)
{
    Handle ours = known(*object);
    if (is_fortran<Handle>[slot]) {
        MPI_Fint number = fortran_number(ours);
        capsule::call_home(handle_in_fortran,
                           reinterpret_cast<FortranHandler *>(handlers<Handle>.at(slot)), &number,
                           code);
        return;
    }
    capsule::call_home(handle_at_home<Handle>,
                       reinterpret_cast<Handler<Handle> *>(handlers<Handle>.at(slot)), &ours, code);
}

template <class Handle, size_t... slots>
Handler<Handle> *handler_of(size_t slot, std::index_sequence<slots...>)
{
    static Handler<Handle> *const all[] = {handle<Handle, slots>...};
    return all[slot];
}

template <class Handle>
Handler<Handle> *slot_function(size_t slot)
{
    return handler_of<Handle>(slot, std::make_index_sequence<most>());
}

// Which function stands behind each of the library's error handlers. A program may free one that
// its communicators still have, and the library tells no more than its address; that of one that is
// really gone is given to a new one.
class Origins
{
  public:
    struct Origin {
        void *real;
        Kind kind;
        uint32_t slot;
    };
    void add(const Origin &origin)
    {
        capsule::Hold hold(lock_);
        Origin *place = find(origin.real);
        if (place == nullptr && count_ == room_)
            grow();
        if (place == nullptr)
            place = &all_[count_++];
        *place = origin;
    }
    Origin *find(const void *real) const
    {
        for (size_t i = 0; i < count_; i++) {
            if (all_[i].real == real)
                return &all_[i];
        }
        return nullptr;
    }
    void clear() { count_ = 0; }

  private:
    void grow()
    {
        const size_t room = room_ == 0 ? 128 : 2 * room_;
        auto *bigger = static_cast<Origin *>(capsule::keep(room * sizeof(Origin)));
        if (bigger == nullptr)
            fatal("no memory for MPI error handlers");
        for (size_t i = 0; i < count_; i++)
            bigger[i] = all_[i];
        if (all_ != nullptr)
            capsule::unkeep(all_, room_ * sizeof(Origin));
        all_ = bigger;
        room_ = room;
    }

    capsule::Lock lock_;
    Origin *all_ = nullptr;
    size_t count_ = 0;
    size_t room_ = 0;
};

Origins origins;

template <class Handle, class Create>
int create(Create make, Handler<Handle> *function, MPI_Errhandler *handler, bool fortran = false)
{
    const int slot = handlers<Handle>.find_or_add(reinterpret_cast<void *>(function));
    if (slot < 0)
        fatal("the program uses more than %zu functions as MPI error handlers", most);
    is_fortran<Handle>[slot] = fortran;
    Made made(handler);
    const int result = done(
        capsule::call(make, slot_function<Handle>(static_cast<size_t>(slot)), made.place()), made);
    if (result == MPI_SUCCESS)
        origins.add({made.object()->real, kind_of<Handle>, static_cast<uint32_t>(slot)});
    return result;
}

template <class Handle, class Create>
bool recreate(Create make, HandlerNote &note, Why &why)
{
    MPI_Errhandler made = nullptr;
    if (!worked(capsule::call(make, slot_function<Handle>(note.slot), &made),
                "making an error handler again", why))
        return false;
    note.real = made;
    origins.add({made, kind_of<Handle>, note.slot});
    return true;
}

#ifdef OPEN_MPI
// Since 5.0.
auto create_for_sessions()
{
    constexpr char name[] = "PMPI_Session_create_errhandler";
    const auto create = capsule::function<int (*)(Handler<MPI_Session> *, MPI_Errhandler *)>(name);
    must_have(create, name + 1);
    return create;
}
#endif

} // namespace

bool find_error_handler(void *real, uint32_t &variant, uint32_t &slot)
{
    const Origins::Origin *origin = origins.find(real);
    if (origin == nullptr)
        return false;
    variant = static_cast<uint32_t>(origin->kind);
    slot = origin->slot;
    return true;
}

void forget_error_handlers()
{
    origins.clear();
}

bool replay_error_handler(HandlerNote &note, Why &why)
{
    switch (static_cast<Kind>(note.variant)) {
    case Kind::Win:
        return recreate<MPI_Win>(stock.Win_create_errhandler, note, why);
    case Kind::File:
        return recreate<MPI_File>(stock.File_create_errhandler, note, why);
#ifdef OPEN_MPI
    case Kind::Session:
        return recreate<MPI_Session>(create_for_sessions(), note, why);
#endif
    default:
        return recreate<MPI_Comm>(stock.Comm_create_errhandler, note, why);
    }
}

} // namespace cryo::mpi

using namespace cryo::mpi;

#ifdef OPEN_MPI

// Called by the Fortran and C++ libraries in place of the three functions below.
EXPORTED MPI_Errhandler ompi_errhandler_create(int type, void *function, int language)
{
    enum { communicator = 1, window, file, session };
    enum { cxx = 1, fortran };
    const Inside inside;
    if (fortran_is_newer()) // C and Fortran are all the languages there
        language = language != 0 ? fortran : 0;
    if (language == cxx)
        fatal("error handlers of the removed C++ bindings are not supported; use the C functions");
    const bool is_fortran = language == fortran;
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    if (type == communicator)
        create<MPI_Comm>(stock.Comm_create_errhandler,
                         reinterpret_cast<Handler<MPI_Comm> *>(function), &made, is_fortran);
    else if (type == window)
        create<MPI_Win>(stock.Win_create_errhandler, reinterpret_cast<Handler<MPI_Win> *>(function),
                        &made, is_fortran);
    else if (type == file)
        create<MPI_File>(stock.File_create_errhandler,
                         reinterpret_cast<Handler<MPI_File> *>(function), &made, is_fortran);
    else if (type == session)
        create<MPI_Session>(create_for_sessions(),
                            reinterpret_cast<Handler<MPI_Session> *>(function), &made, is_fortran);
    return made;
}

EXPORTED int PMPI_Session_create_errhandler(void (*function)(MPI_Session *, int *, ...),
                                            MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_Session>(create_for_sessions(), function, handler);
}
ALIAS(MPI_Session_create_errhandler, PMPI_Session_create_errhandler)

#endif

EXPORTED int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function,
                                         MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_Comm>(stock.Comm_create_errhandler, function, handler);
}
ALIAS(MPI_Comm_create_errhandler, PMPI_Comm_create_errhandler)

EXPORTED int PMPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *handler)
{
    return PMPI_Comm_create_errhandler(function, handler);
}
ALIAS(MPI_Errhandler_create, PMPI_Errhandler_create)

EXPORTED int PMPI_File_create_errhandler(MPI_File_errhandler_function *function,
                                         MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_File>(stock.File_create_errhandler, function, handler);
}
ALIAS(MPI_File_create_errhandler, PMPI_File_create_errhandler)

EXPORTED int PMPI_Win_create_errhandler(MPI_Win_errhandler_function *function,
                                        MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_Win>(stock.Win_create_errhandler, function, handler);
}
ALIAS(MPI_Win_create_errhandler, PMPI_Win_create_errhandler)
