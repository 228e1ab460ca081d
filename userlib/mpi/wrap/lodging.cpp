// SPDX-License-Identifier: Apache-2.0
// The interface between the capsule and the checkpointer's agent (agent/lodger.hpp).
#include "agent/interface.hpp"
#include "agent/lodger.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/descriptor_owner.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/objects.hpp"
#include "mpi/wrap/clock.hpp"
#include "mpi/wrap/forked.hpp"
#include "mpi/wrap/replay.hpp"
#include "mpi/wrap/revive.hpp"
#include "sys/raw.hpp"

#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::mpi {

namespace {

bool restored; // and not revived yet
char **environment_here;
size_t environment_bytes;

bool range(uint32_t number, agent::LodgerRange *range)
{
    capsule::Range found;
    if (!capsule::range(number, found))
        return false;
    *range = {found.start, found.end};
    return true;
}

// Builds the variables and the array of pointers to them in one block. RULE: a signal handler.
void read_environment(int file)
{
    struct stat status;
    if (file < 0 || sys::failed(sys::call(SYS_fstat, file, &status)))
        return;
    const auto bytes = static_cast<size_t>(status.st_size);
    const size_t words = bytes / 2 + 2; // a variable has at least two bytes
    environment_bytes = bytes + words * sizeof(char *);
    auto *place = static_cast<char *>(capsule::keep(environment_bytes));
    if (place == nullptr)
        return;
    char *text = place + words * sizeof(char *);
    if (sys::call(SYS_pread64, file, text, bytes, 0) != static_cast<long>(bytes)) {
        capsule::unkeep(place, environment_bytes);
        return;
    }
    environment_here = reinterpret_cast<char **>(place);
    size_t count = 0;
    for (size_t at = 0; at < bytes; at++) {
        if (at == 0 || text[at - 1] == 0)
            environment_here[count++] = text + at;
    }
    environment_here[count] = nullptr;
}

bool stopped(agent::LodgerRefusal *why)
{
    hold_clock();
    if (!capsule::is_open())
        return true;
    return is_forked() ? may_be_saved_forked(*why) : describe_stopped(*why);
}

bool owns_descriptor(int descriptor)
{
    return is_forked() ? capsule::inherits_descriptor(descriptor)
                       : capsule::owns_descriptor(descriptor);
}

// The library's threads are the rank's: a child's thread may have the number of one that has ended.
bool owns_thread(int tid)
{
    return !is_forked() && capsule::owns_thread(tid);
}

void going_on()
{
    forget_description();
}

void restarted(int environment)
{
    if (environment_here != nullptr)
        capsule::unkeep(environment_here, environment_bytes);
    environment_here = nullptr;
    read_environment(environment);
    let_clock_go_on();
    capsule::forget();
    forget_library_handles();
    restored = true;
}

constexpr agent::Lodger lodger = {
    .size = sizeof(lodger),
    .range = range,
    .owns_fd = owns_descriptor,
    .owns_thread = owns_thread,
    .stopped = stopped,
    .going_on = going_on,
    .restarted = restarted,
    .forked = note_fork,
};

const agent::Interface *find_agent()
{
    const agent::Interface *const *place = &agent::cryo_agent_interface;
    return place != nullptr ? *place : nullptr;
}

} // namespace

void begin_lodging()
{
    static bool done;
    const agent::Interface *agent = find_agent();
    if (done || agent == nullptr || agent->size <= offsetof(agent::Interface, set_lodger))
        return;
    done = true;
    agent->own_library(&restored);
    agent->set_lodger(&lodger);
}

bool is_to_revive()
{
    return restored;
}

char *const *job_environment()
{
    return environment_here != nullptr ? environment_here : environ;
}

bool revive(capsule::Refusal &why)
{
    restored = false;
    return replay(why);
}

} // namespace cryo::mpi
