// SPDX-License-Identifier: Apache-2.0
// Probes and matched probes see drained messages first.
#include "functions.gen.hpp"
#include "mpi/rank/completion.hpp"
#include "mpi/rank/fruitless.hpp"
#include "mpi/rank/spin.hpp"

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

void tell(const bookmark::Arrival &arrival, MPI_Status *status)
{
    MPI_Status found = {};
    found.MPI_SOURCE = arrival.source;
    found.MPI_TAG = arrival.tag;
    abi::set_bytes(found, arrival.bytes);
    set_status(status, found);
}

bool is_for_library(MPI_Comm comm, int source, int tag)
{
    const bookmark::Comm *counters = counted(comm);
    return counters == nullptr || abi::peer(source) < bookmark::kAnySource || tag < MPI_ANY_TAG ||
           (source >= 0 && uint32_t(source) >= counters->peer_count());
}

bool look(bookmark::Comm &comm, int source, int tag, bookmark::Arrival &arrival)
{
    const Engine::Busy busy(*engine);
    return engine->receives().probe(comm, abi::peer(source), tag, arrival);
}

// Waits inside the capsule while that is allowed: no checkpoint is pending and nothing is drained.
spin::Probe wait_for_message(int source, int tag, MPI_Comm comm)
{
    spin::Probe probe = {.source = source,
                         .tag = tag,
                         .comm = mpi::real_of(comm),
                         .status = {},
                         .flag = 0,
                         .error = MPI_SUCCESS};
    if (!must_attend && counted(comm)->drained.empty())
        call(spin::probe, &probe);
    return probe;
}

// Creates a message's handle, whose record the exchange fills in.
Message &make_message()
{
    return *begin_record<Message>(make_object(Kind::Message, nullptr));
}

bool look(bookmark::Comm &comm, int source, int tag, Message &message)
{
    const Engine::Busy busy(*engine);
    return engine->receives().mprobe(comm, abi::peer(source), tag, message);
}

// A message that the library has matched by itself has a record, too, of no communicator.
int matched_by_library(int result, const Made<MPI_Message> &made)
{
    if (made.is_something() && !is_predefined(made.object()))
        begin_record<Message>(made.object());
    return result;
}

bool is_ours(MPI_Message message)
{
    return message != nullptr && !is_predefined(object_of(message)) &&
           record_in<Message>(object_of(message))->comm != nullptr;
}

} // namespace

int Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    if (is_for_library(comm, source, tag) || (!must_attend && counted(comm)->drained.empty())) {
        *flag = 1;
        const int result = call(stock.Iprobe, source, tag, mpi::real_of(comm), flag, status);
        if (result == MPI_SUCCESS && *flag == 0)
            fruitless_probes.were(Probed::count, Probed(source, tag, comm).words);
        return result;
    }
    bookmark::Arrival found;
    *flag = look(*counted(comm), source, tag, found);
    if (*flag != 0) {
        pause_over();
        tell(found, status);
    } else if (must_attend) {
        pause_for(*counted(comm), abi::peer(source));
    }
    return MPI_SUCCESS;
}

int Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    if (is_for_library(comm, source, tag))
        return call(stock.Probe, source, tag, mpi::real_of(comm), status);
    bookmark::Comm &counters = *counted(comm);
    const spin::Probe quick = wait_for_message(source, tag, comm);
    if (quick.flag != 0 || quick.error != MPI_SUCCESS) {
        set_status(status, quick.status);
        return quick.error;
    }
    bookmark::Arrival found;
    while (!look(counters, source, tag, found))
        pause_for(counters, abi::peer(source));
    pause_over();
    tell(found, status);
    return MPI_SUCCESS;
}

int Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status)
{
    if (is_for_library(comm, source, tag)) {
        Made made(message);
        const int result = done(
            call(stock.Improbe, source, tag, mpi::real_of(comm), flag, made.place(), status), made);
        return matched_by_library(result, made);
    }
    Message &found = make_message();
    *flag = look(*counted(comm), source, tag, found);
    if (*flag == 0) {
        drop_object(object_of_record(&found));
        if (must_attend)
            pause_for(*counted(comm), abi::peer(source));
        return MPI_SUCCESS;
    }
    pause_over();
    found.comm->requests++;
    tell(found.arrival, status);
    *message = handle_of<MPI_Message>(object_of_record(&found));
    return MPI_SUCCESS;
}

int Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    if (is_for_library(comm, source, tag)) {
        Made made(message);
        const int result =
            done(call(stock.Mprobe, source, tag, mpi::real_of(comm), made.place(), status), made);
        return matched_by_library(result, made);
    }
    int flag = 0;
    int result = MPI_SUCCESS;
    while (result == MPI_SUCCESS && flag == 0) {
        result = wait_for_message(source, tag, comm).error;
        if (result == MPI_SUCCESS) // another thread may have taken it meanwhile
            result = Improbe(source, tag, comm, &flag, message, status);
    }
    return result;
}

int Imrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request)
{
    if (!is_ours(*message) || count < 0 || type == nullptr) {
        Changed changed(message);
        Made made(request);
        return tracked(
            done(call(stock.Imrecv, buf, count, mpi::real_of(type), changed.place(), made.place()),
                 changed, made),
            request);
    }
    Object *object = object_of(*message);
    auto &matched = *record_in<Message>(object);
    Request &r = make_request(Use::receive, matched.comm, matched.arrival.source,
                              matched.arrival.tag, buf, count, type);
    {
        const Engine::Busy busy(*engine);
        engine->receives().receive_matched(matched, r);
    }
    r.active = true;
    matched.comm->requests--;
    drop_object(object);
    *message = handle_of<MPI_Message>(null_object(Kind::Message));
    *request = handle_of_request(r);
    return MPI_SUCCESS;
}

int Mrecv(void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status)
{
    if (!is_ours(*message) || count < 0 || type == nullptr) {
        Changed changed(message);
        return done(call(stock.Mrecv, buf, count, mpi::real_of(type), changed.place(), status),
                    changed);
    }
    MPI_Request request = nullptr;
    const int result = Imrecv(buf, count, type, message, &request);
    return result == MPI_SUCCESS ? Wait(&request, status) : result;
}

} // namespace cryo::mpi::traffic
