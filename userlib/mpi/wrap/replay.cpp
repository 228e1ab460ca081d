// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/replay.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/rank/collectives.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/placement.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/revive.hpp"
#include "mpi/wrap/told.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstdio>
#include <cstdlib>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

Life life;

namespace {

Story story;
bool described;

bool describe_object(Object *object, Why &why)
{
    switch (object->kind) {
    case Kind::Comm:
        return describe_communicator(story, object, false, why);
    case Kind::Datatype: {
        TypeNote *note = nullptr;
        return describe_type(story, static_cast<MPI_Datatype>(object->real), false, note, why);
    }
    case Kind::Errhandler: {
        HandlerNote *note = nullptr;
        return describe_handler(story, static_cast<MPI_Errhandler>(object->real), note, why);
    }
    case Kind::Group:
        return describe_group(story, object, why);
    case Kind::Info: {
        InfoNote *note = nullptr;
        if (!describe_info(story, static_cast<MPI_Info>(object->real), note, why))
            return false;
        note->object = object;
        return true;
    }
    case Kind::Op: {
        auto *note = story.notes.make<OperationNote>();
        if (note == nullptr)
            return no_memory(why);
        note->object = object;
        story.operations.add(note);
        return true;
    }
    case Kind::Message:
        if (object->real == nullptr)
            break; // it was drained
        return refuse(why, "a message that was probed (MPI_Mprobe) and not received");
    case Kind::File:
        return describe_file(story, object, why);
    case Kind::Win:
        return describe_window(story, object, why);
    case Kind::Session:
        return describe_session(story, object, why);
    case Kind::Request:
        break; // the rank engine handles those of messages; requests are not listed
    }
    return true;
}

void open_world()
{
    call(stock.Comm_group, static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real), &story.world);
}

void close_world()
{
    call(stock.Group_free, &story.world);
}

bool describe_all(Why &why)
{
    size_t from = 0;
    open_world();
    bool done = describe_communicator(story, object_of(MPI_COMM_WORLD), true, why);
    // Errors not related to a communicator go to MPI_COMM_WORLD.
    ErrorsReturn quiet(object_of(MPI_COMM_WORLD));
    done = done && describe_communicator(story, object_of(MPI_COMM_SELF), true, why) &&
           describe_predefined_types(story, why) && describe_default_of_files(story, why);
    for (Object *object = next_object(from); done && object != nullptr; object = next_object(from))
        done = describe_object(object, why);
    close_world();
    return done;
}

bool replay_all(Why &why)
{
    open_world();
    bool done = tell_again(why) && replay_infos(story, why) && replay_groups(story, why) &&
                replay_handlers(story, why) && replay_keyvals(why) && replay_sessions(story, why);
    for (OperationNote *note = story.operations.first(); done && note != nullptr; note = note->next)
        done = replay_operation(note->object, why);
    done = done && replay_types(story, why) && replay_communicators(story, why) &&
           replay_windows(story, why) && replay_files(story, why) &&
           replay_default_of_files(story, why) && rank::make_collectives_again(why) &&
           gather_placement(why);
    close_world();
    if (done)
        drop_nameless(story);
    return done;
}

void forget_story()
{
    story.notes.forget();
    story = {};
}

bool initialize(capsule::Refusal &why)
{
    int level = life.level;
    const int result = life.by_init_thread
                           ? call(stock.Init_thread, nullptr, nullptr, life.level, &level)
                           : call(stock.Init, nullptr, nullptr);
    if (result != MPI_SUCCESS)
        return refuse(why, "MPI_Init fails in the restarted program: error %d", result);
    if (life.by_init_thread && level < life.provided)
        return refuse(why,
                      "the MPI library here provides thread level %d, and the program was saved "
                      "with %d; restart it with the library that it had",
                      level, life.provided);
    return true;
}

} // namespace

bool describe_handles(capsule::Refusal &why)
{
    if (described)
        return true;
    described = true;
    if (!life.begun || life.finalized)
        return true;
    if (!rank::engine_counts && live_requests() != 0)
        return refuse(why, "%zu MPI requests that are not complete, or persistent",
                      live_requests());
    if (rank::may_make_collectives_again(why) && describe_all(why))
        return true;
    forget_description();
    return false;
}

// The image of one rank lacks the messages that are on their way to it. Tests whose ranks have none
// may request it nevertheless.
static bool may_be_saved_alone(agent::LodgerRefusal &why)
{
    char *const *environment = job_environment();
    if (life.is_uncounted) {
        snprintf(why.what, sizeof(why.what), "an MPI session that lives on after MPI_Finalize");
        snprintf(why.way_out, sizeof(why.way_out), "finalize sessions first");
        return false;
    }
    if (!life.begun || life.finalized ||
        capsule::variable(environment, "CRYO_RANK_ALONE") != nullptr)
        return true;
    snprintf(why.what, sizeof(why.what), "an MPI rank");
    const char *job = capsule::variable(environment, "CRYO_JOB");
    if (job != nullptr)
        snprintf(why.way_out, sizeof(why.way_out), "use ompi-checkpoint %ld", atol(job));
    else
        snprintf(why.way_out, sizeof(why.way_out),
                 "start the job as `cr_run mpirun ...`, and use ompi-checkpoint PID_OF_MPIRUN");
    return false;
}

bool describe_stopped(agent::LodgerRefusal &why)
{
    if (described)
        return true;
    if (!may_be_saved_alone(why))
        return false;
    if (objects_are_busy()) {
        snprintf(why.what, sizeof(why.what), "a thread is in the middle of an MPI call");
        snprintf(why.way_out, sizeof(why.way_out), "try again");
        return false;
    }
    capsule::AsFirst entered;
    capsule::Refusal reason = {};
    if (describe_handles(reason))
        return true;
    snprintf(why.what, sizeof(why.what), "%.*s", static_cast<int>(sizeof(why.what) - 1),
             reason.text);
    snprintf(why.way_out, sizeof(why.way_out), "the program must free it first");
    return false;
}

void forget_description()
{
    forget_story();
    described = false;
}

bool replay(capsule::Refusal &why)
{
    described = false;
    if (!life.begun || life.finalized)
        return true;
    if (!initialize(why))
        return false;
    own_world();
    number_predefined_objects();
    const bool done = replay_all(why);
    forget_story();
    return done;
}

} // namespace cryo::mpi
