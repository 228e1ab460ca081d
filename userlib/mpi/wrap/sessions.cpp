// SPDX-License-Identifier: Apache-2.0
// Sessions, which Open MPI has since 5.0 and MPICH since 4.0. MPI_COMM_WORLD, which the engine and
// a restart need, is created behind the first one, whether the program calls MPI_Init or not. A new
// library gets sessions with the infos and error handlers of the old ones.
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

namespace {

constexpr char init_name[] = "PMPI_Session_init";
using Init = int (*)(MPI_Info, MPI_Errhandler, MPI_Session *);

constexpr char finalize_name[] = "PMPI_Session_finalize";
using Finalize = int (*)(MPI_Session *);

// The library's info for a session, freed at the end. If MPI_Init was called for one thread, the
// engine supports only one: then a session provides no higher level, and its own info says so.
class InfoForInit
{
  public:
    explicit InfoForInit(MPI_Info info) : real_(real_of(info))
    {
        if (!rank::engine_counts || rank::several_threads || info == nullptr ||
            object_of(info) == null_object(Kind::Info) ||
            call(stock.Info_dup, real_, &copy_) != MPI_SUCCESS)
            return;
        constexpr char key[] = "thread_level";
        int length = 0;
        int flag = 0;
        call(stock.Info_get_valuelen, copy_, key, &length, &flag);
        if (flag != 0)
            call(stock.Info_set, copy_, key, "MPI_THREAD_SINGLE");
        real_ = copy_;
    }
    ~InfoForInit()
    {
        if (copy_ != nullptr)
            call(stock.Info_free, &copy_);
    }
    InfoForInit(const InfoForInit &) = delete;
    InfoForInit &operator=(const InfoForInit &) = delete;
    MPI_Info real() const { return real_; }

  private:
    MPI_Info real_;
    MPI_Info copy_ = nullptr;
};

} // namespace

bool describe_session(Story &story, Object *object, Why &why)
{
    const auto real = static_cast<MPI_Session>(object->real);
    auto *note = story.notes.make<SessionNote>();
    if (note == nullptr)
        return no_memory(why);
    note->object = object;
    story.sessions.add(note);
    MPI_Errhandler handler = nullptr;
    MPI_Info info = nullptr;
    if (!worked(call(stock.Session_get_errhandler, real, &handler), "a session", why))
        return false;
    bool done = describe_handler(story, handler, note->handler, why);
    call(stock.Errhandler_free, &handler);
    if (!done || !worked(call(stock.Session_get_info, real, &info), "a session's info", why))
        return false;
    done = describe_info(story, info, note->info, why);
    call(stock.Info_free, &info);
    return done;
}

bool replay_sessions(Story &story, Why &why)
{
    const auto init = capsule::function<Init>(init_name);
    for (SessionNote *note = story.sessions.first(); note != nullptr; note = note->next) {
        if (init == nullptr)
            return refuse(why, "the MPI library here has no sessions; restart the program with the "
                               "library that it had");
        MPI_Session made = nullptr;
        const auto handler = static_cast<MPI_Errhandler>(note->handler->real);
        // MPICH 4.0 ignores the handler that it is given here.
        if (!worked(call(init, static_cast<MPI_Info>(note->info->real), handler, &made),
                    "beginning a session again", why) ||
            !worked(call(stock.Session_set_errhandler, made, handler),
                    "setting a session's error handler again", why))
            return false;
        bind_object(note->object, made);
    }
    return true;
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
    const Inside inside;
    const auto init = cryo::capsule::function<Init>(init_name);
    must_have(init, init_name + 1);
    begin_for_sessions();
    const InfoForInit given(info);
    Made made(session);
    const int result = done(call(init, given.real(), real_of(handler), made.place()), made);
    if (result == MPI_SUCCESS) {
        life.sessions++;
        life.is_uncounted = life.is_uncounted || life.finalized;
        fortran_state_changed();
    }
    return result;
}
ALIAS(MPI_Session_init, PMPI_Session_init)

EXPORTED int PMPI_Session_finalize(MPI_Session *session)
{
    const Inside inside;
    const auto finalize = cryo::capsule::function<Finalize>(finalize_name);
    must_have(finalize, finalize_name + 1);
    Changed changed(session);
    const int result = done(call(finalize, changed.place()), changed);
    if (result == MPI_SUCCESS)
        life.sessions--;
    fortran_state_changed();
    return result;
}
ALIAS(MPI_Session_finalize, PMPI_Session_finalize)
