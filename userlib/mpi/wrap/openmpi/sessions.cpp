// SPDX-License-Identifier: Apache-2.0
// Sessions, which Open MPI has since 5.0, and which are not saved: handles of sessions are the
// library's own. From the first one on the process cannot be saved, and says why.
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/wrapper.hpp"

extern "C" {
struct ompi_instance_t;
// MPI_SESSION_NULL is its address.
[[gnu::visibility("default")]] extern char ompi_mpi_instance_null[512];
char ompi_mpi_instance_null[512];
}

namespace cryo::mpi {

namespace {

using capsule::call;
using Session = ompi_instance_t *;

Session null_of_library()
{
    return static_cast<Session>(capsule::symbol("ompi_mpi_instance_null"));
}

Session null_of_program()
{
    return reinterpret_cast<Session>(&ompi_mpi_instance_null);
}

Session real_of(Session session)
{
    return session == null_of_program() ? null_of_library() : session;
}

Session known_session(Session real)
{
    return real == null_of_library() ? null_of_program() : real;
}

// Found by name at each call: sessions are made and asked seldom.
template <class Result = int, class... Arguments>
Result call_by_name(const char *name, Arguments... arguments)
{
    const auto function = capsule::function<Result (*)(Arguments...)>(name);
    must_have(function, name + 1);
    return call(function, arguments...);
}

} // namespace

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED int PMPI_Session_init(MPI_Info info, MPI_Errhandler handler, Session *session)
{
    const Inside inside;
    const int result = call_by_name("PMPI_Session_init", real_of(info), real_of(handler), session);
    if (result == MPI_SUCCESS) {
        life.has_sessions = true;
        rank::hinder("it has MPI sessions");
        fortran_state_changed();
    }
    *session = known_session(*session);
    return result;
}
ALIAS(MPI_Session_init, PMPI_Session_init)

EXPORTED int PMPI_Session_finalize(Session *session)
{
    const Inside inside;
    Session real = real_of(*session);
    const int result = call_by_name("PMPI_Session_finalize", &real);
    fortran_state_changed();
    *session = known_session(real);
    return result;
}
ALIAS(MPI_Session_finalize, PMPI_Session_finalize)

EXPORTED int PMPI_Session_get_num_psets(Session session, MPI_Info info, int *count)
{
    const Inside inside;
    return call_by_name("PMPI_Session_get_num_psets", real_of(session), real_of(info), count);
}
ALIAS(MPI_Session_get_num_psets, PMPI_Session_get_num_psets)

EXPORTED int PMPI_Session_get_nth_pset(Session session, MPI_Info info, int n, int *length,
                                       char *name)
{
    const Inside inside;
    return call_by_name("PMPI_Session_get_nth_pset", real_of(session), real_of(info), n, length,
                        name);
}
ALIAS(MPI_Session_get_nth_pset, PMPI_Session_get_nth_pset)

EXPORTED int PMPI_Session_get_pset_info(Session session, const char *name, MPI_Info *info)
{
    const Inside inside;
    Made made(info);
    return done(call_by_name("PMPI_Session_get_pset_info", real_of(session), name, made.place()),
                made);
}
ALIAS(MPI_Session_get_pset_info, PMPI_Session_get_pset_info)

EXPORTED int PMPI_Session_get_info(Session session, MPI_Info *info)
{
    const Inside inside;
    Made made(info);
    return done(call_by_name("PMPI_Session_get_info", real_of(session), made.place()), made);
}
ALIAS(MPI_Session_get_info, PMPI_Session_get_info)

EXPORTED int PMPI_Session_set_info(Session session, MPI_Info info)
{
    const Inside inside;
    return call_by_name("PMPI_Session_set_info", real_of(session), real_of(info));
}
ALIAS(MPI_Session_set_info, PMPI_Session_set_info)

EXPORTED int PMPI_Session_get_errhandler(Session session, MPI_Errhandler *handler)
{
    const Inside inside;
    Made made(handler);
    return done(call_by_name("PMPI_Session_get_errhandler", real_of(session), made.place()), made);
}
ALIAS(MPI_Session_get_errhandler, PMPI_Session_get_errhandler)

EXPORTED int PMPI_Session_set_errhandler(Session session, MPI_Errhandler handler)
{
    const Inside inside;
    return call_by_name("PMPI_Session_set_errhandler", real_of(session), real_of(handler));
}
ALIAS(MPI_Session_set_errhandler, PMPI_Session_set_errhandler)

EXPORTED int PMPI_Session_call_errhandler(Session session, int error)
{
    const Inside inside;
    return call_by_name("PMPI_Session_call_errhandler", real_of(session), error);
}
ALIAS(MPI_Session_call_errhandler, PMPI_Session_call_errhandler)

EXPORTED int PMPI_Session_create_errhandler(void (* /*function*/)(Session *, int *, ...),
                                            MPI_Errhandler * /*handler*/)
{
    fatal("MPI_Session_create_errhandler is not supported; use MPI_ERRORS_RETURN");
}
ALIAS(MPI_Session_create_errhandler, PMPI_Session_create_errhandler)

EXPORTED int PMPI_Group_from_session_pset(Session session, const char *name, MPI_Group *group)
{
    const Inside inside;
    Made made(group);
    return done(call_by_name("PMPI_Group_from_session_pset", real_of(session), name, made.place()),
                made);
}
ALIAS(MPI_Group_from_session_pset, PMPI_Group_from_session_pset)

EXPORTED MPI_Fint PMPI_Session_c2f(Session session)
{
    const Inside inside;
    return call_by_name<MPI_Fint>("PMPI_Session_c2f", real_of(session));
}
ALIAS(MPI_Session_c2f, PMPI_Session_c2f)

EXPORTED Session PMPI_Session_f2c(MPI_Fint number)
{
    const Inside inside;
    return known_session(call_by_name<Session>("PMPI_Session_f2c", number));
}
ALIAS(MPI_Session_f2c, PMPI_Session_f2c)
