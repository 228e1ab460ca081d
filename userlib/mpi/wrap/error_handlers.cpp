// SPDX-License-Identifier: Apache-2.0
// The program's error handlers, for communicators, windows and files.
#include "mpi/rank/heard.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <utility>

namespace cryo::mpi {

namespace {

constexpr size_t most = 128;

// The program's handlers are declared with `...`, but get no arguments there.
template <class Handle>
using Handler = void(Handle *, int *, ...);

using FortranHandler = void(MPI_Fint *, MPI_Fint *, ...);

template <class Handle>
Slots<most> handlers;
enum class Language : uint8_t { c, fortran, cxx };
template <class Handle>
Language languages[most]; // a function is written in one language

// The handler may call MPI functions that fail themselves, so its error is recorded afterwards.
template <class Function, class Object>
void call_handler(Function *handler, Object *object, int *code)
{
    const int error = *code;
    handler(object, code, nullptr);
    last_error = {.depth = rank::depth, .code = error, .left = *code};
}

template <class Handle>
void handle_at_home(Handler<Handle> *handler, Handle *object, int *code)
{
    call_handler(handler, object, code);
}

void handle_in_fortran(FortranHandler *handler, MPI_Fint *object, MPI_Fint *code)
{
    call_handler(handler, object, code);
}

#ifdef OPEN_MPI
// Functions of the C++ library, if the program has loaded it; they call the program's functions.
extern "C" {
[[gnu::weak]] void ompi_mpi_cxx_comm_errhandler_invoke(MPI_Comm *, int *, const char *, void (*)());
[[gnu::weak]] void ompi_mpi_cxx_win_errhandler_invoke(MPI_Win *, int *, const char *, void (*)());
[[gnu::weak]] void ompi_mpi_cxx_file_errhandler_invoke(MPI_File *, int *, const char *, void (*)());
}
template <class Handle>
void (*const in_cxx)(Handle *, int *, const char *, void (*)()) = nullptr;
template <>
const auto in_cxx<MPI_Comm> = ompi_mpi_cxx_comm_errhandler_invoke;
template <>
const auto in_cxx<MPI_Win> = ompi_mpi_cxx_win_errhandler_invoke;
template <>
const auto in_cxx<MPI_File> = ompi_mpi_cxx_file_errhandler_invoke;

template <class Handle>
void handle_in_cxx(Handle ours, int *code, void (*function)())
{
    if (in_cxx<Handle> != nullptr)
        capsule::call_home(in_cxx<Handle>, &ours, code, static_cast<const char *>(nullptr),
                           function);
}

#else
// Set by MPICH's C++ library; calls the program's function.
void (*in_cxx)(int kind, void *object, int *code, void (*function)());

template <class Handle>
constexpr int cxx_kind = kind_of<Handle> == Kind::File  ? 1
                         : kind_of<Handle> == Kind::Win ? 2
                                                        : 0;

void cxx_at_home(int kind, void *object, int *code, void (*function)())
{
    const int error = *code;
    in_cxx(kind, object, code, function);
    last_error = {.depth = rank::depth, .code = error, .left = MPI_SUCCESS};
}

template <class Handle>
void handle_in_cxx(Handle ours, int *code, void (*function)())
{
    capsule::call_home(cxx_at_home, cxx_kind<Handle>, static_cast<void *>(&ours), code, function);
}

// Registered with the library for C++ handlers: it then returns success after an error, because the
// C++ handler has reported the error.
void call_slot(int /*kind*/, int *object, int *code, void (*function)())
{
    reinterpret_cast<Handler<int> *>(function)(object, code, nullptr);
}

void set_cxx(MPI_Errhandler real)
{
    constexpr char name[] = "MPII_Errhandler_set_cxx";
    const auto set = capsule::function<void (*)(MPI_Errhandler, void (*)())>(name);
    must_have(set, name);
    capsule::call(set, real, reinterpret_cast<void (*)()>(call_slot));
}
#endif

template <class Handle, size_t slot>
void handle(Handle *object, int *code, ...)
{
    const Shown shown(*object);
    Handle ours = shown.as<Handle>();
    if (languages<Handle>[slot] == Language::cxx) {
        handle_in_cxx(ours, code, reinterpret_cast<void (*)()>(handlers<Handle>.at(slot)));
        return;
    }
    if (languages<Handle>[slot] == Language::fortran) {
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

// The function behind each of the library's error handlers. A program may free one that its
// communicators still use, and the library reports only its address; the address of one that no
// longer exists may be reused for a new one.
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
int create(Create make, Handler<Handle> *function, MPI_Errhandler *handler,
           Language language = Language::c)
{
    const int slot = handlers<Handle>.find_or_add(reinterpret_cast<void *>(function));
    if (slot < 0)
        fatal("the program uses more than %zu functions as MPI error handlers", most);
    languages<Handle>[slot] = language;
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
#ifndef OPEN_MPI
    if (languages<Handle>[note.slot] == Language::cxx)
        set_cxx(made);
#endif
    note.real = made;
    origins.add({made, kind_of<Handle>, note.slot});
    return true;
}

// Open MPI has these since 5.0.
auto create_for_sessions()
{
    constexpr char name[] = "PMPI_Session_create_errhandler";
    const auto create = capsule::function<int (*)(Handler<MPI_Session> *, MPI_Errhandler *)>(name);
    must_have(create, name + 1);
    return create;
}

#ifndef OPEN_MPI
// Marks an error handler that has just been created.
void mark_cxx(MPI_Errhandler real)
{
    const Origins::Origin *origin = origins.find(static_cast<void *>(real));
    Language *all = origin->kind == Kind::Win    ? languages<MPI_Win>
                    : origin->kind == Kind::File ? languages<MPI_File>
                                                 : languages<MPI_Comm>;
    all[origin->slot] = Language::cxx;
    set_cxx(real);
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
    case Kind::Session:
        return recreate<MPI_Session>(create_for_sessions(), note, why);
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
    if (fortran_is_newer()) // 5.0 distinguishes only C and Fortran
        language = language != 0 ? fortran : 0;
    const Language of = language == cxx       ? Language::cxx
                        : language == fortran ? Language::fortran
                                              : Language::c;
    if (of == Language::cxx && in_cxx<MPI_Comm> == nullptr)
        fatal("error handlers of C++ need Open MPI's libmpi_cxx loaded with the program; link it");
    MPI_Errhandler made = MPI_ERRHANDLER_NULL;
    if (type == communicator)
        create<MPI_Comm>(stock.Comm_create_errhandler,
                         reinterpret_cast<Handler<MPI_Comm> *>(function), &made, of);
    else if (type == window)
        create<MPI_Win>(stock.Win_create_errhandler, reinterpret_cast<Handler<MPI_Win> *>(function),
                        &made, of);
    else if (type == file)
        create<MPI_File>(stock.File_create_errhandler,
                         reinterpret_cast<Handler<MPI_File> *>(function), &made, of);
    else if (type == session)
        create<MPI_Session>(create_for_sessions(),
                            reinterpret_cast<Handler<MPI_Session> *>(function), &made, of);
    return made;
}

#endif

EXPORTED int PMPI_Session_create_errhandler(void (*function)(MPI_Session *, int *, ...),
                                            MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_Session>(create_for_sessions(), function, handler);
}
ALIAS(MPI_Session_create_errhandler, PMPI_Session_create_errhandler)

EXPORTED int PMPI_Comm_create_errhandler(MPI_Comm_errhandler_function *function,
                                         MPI_Errhandler *handler)
{
    const Inside inside;
    return create<MPI_Comm>(stock.Comm_create_errhandler, function, handler);
}
ALIAS(MPI_Comm_create_errhandler, PMPI_Comm_create_errhandler)

namespace {

template <class Set, class Handle>
int set_handler(Set set, Handle handle, MPI_Errhandler handler)
{
    const int result = cryo::capsule::call(set, real_of(handle), real_of(handler));
    if (result == MPI_SUCCESS && handle != nullptr)
        object_of(handle)->handler = Object::Handler::own;
    return result;
}

} // namespace

EXPORTED int PMPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
    const Inside inside;
    return set_handler(stock.Comm_set_errhandler, comm, handler);
}
ALIAS(MPI_Comm_set_errhandler, PMPI_Comm_set_errhandler)

EXPORTED int PMPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler handler)
{
    return PMPI_Comm_set_errhandler(comm, handler);
}
ALIAS(MPI_Errhandler_set, PMPI_Errhandler_set)

EXPORTED int PMPI_Win_set_errhandler(MPI_Win win, MPI_Errhandler handler)
{
    const Inside inside;
    return set_handler(stock.Win_set_errhandler, win, handler);
}
ALIAS(MPI_Win_set_errhandler, PMPI_Win_set_errhandler)

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

#ifndef OPEN_MPI
EXPORTED void MPII_Errhandler_set_cxx(MPI_Errhandler handler, void (*function)())
{
    const Inside inside;
    in_cxx = reinterpret_cast<decltype(in_cxx)>(function);
    mark_cxx(real_of(handler));
}
#endif
