// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/partitioned.hpp"
#include "functions.gen.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <vector>

namespace cryo::mpi::rank {

using capsule::call;

namespace {

MPI_Comm place; // has the members of MPI_COMM_WORLD
constexpr int of_appointments = 0;

struct Appointment {
    uint64_t comm; // its id
    int tag;
    int first; // tag of the first partition
    int partitions;
    int reserved;
    uint64_t bytes; // of each partition
};

struct Came {
    Came *next;
    int from;
    Appointment appointment;
};

} // namespace

// State of a partitioned request. After the appointment both sides use the sender's partitions.
struct Partitioned {
    Partitioned *next; // list of receives without an appointment, oldest first
    int peer;          // in MPI_COMM_WORLD; -1: MPI_PROC_NULL
    bool sends;
    bool is_met;
    bool is_refused;   // the sender's data exceeds the buffer
    bool is_forgotten; // the program has freed it; its appointment is still its own
    Appointment appointment;
    MPI_Request told; // the send of the appointment
    int own;          // number of partitions here, each of `count` elements
    int64_t count;
    uint64_t bytes; // of all partitions
    MPI_Request *parts;
    std::atomic<uint8_t> *marks;
    std::atomic<int> begun;
    std::atomic_flag polled;
    char *stage; // staging buffer, where partitions are not whole elements here

    static constexpr uint8_t under_way = 1;
    static constexpr uint8_t complete = 2;
};

namespace {

capsule::Lock lock; // protects the lists
Partitioned *waiting;
Came *came;
std::vector<int, std::pmr::polymorphic_allocator<int>> *tags; // next tag, by rank

size_t parts_of(const Partitioned &p)
{
    return static_cast<size_t>(p.appointment.partitions);
}

// NOLINTBEGIN(bugprone-sizeof-expression): T may well be a pointer
template <class T>
T *take(size_t count)
{
    return new (memory().allocate(std::max<size_t>(count, 1) * sizeof(T))) T[count]();
}

template <class T>
void give(T *memory_taken, size_t count)
{
    if (memory_taken != nullptr)
        memory().deallocate(memory_taken, std::max<size_t>(count, 1) * sizeof(T));
}
// NOLINTEND(bugprone-sizeof-expression)

void make_parts(Partitioned &p)
{
    p.parts = take<MPI_Request>(parts_of(p));
    p.marks = take<std::atomic<uint8_t>>(parts_of(p));
}

uint64_t size_of(const Request &r)
{
    return bytes_of(1, handle_of<MPI_Datatype>(r.datatype));
}

// The address of the n-th element.
char *element(const Request &r, uint64_t n)
{
    MPI_Aint low = 0;
    MPI_Aint extent = 0;
    call(stock.Type_get_extent, static_cast<MPI_Datatype>(r.datatype->real), &low, &extent);
    return static_cast<char *>(const_cast<void *>(r.buffer)) + static_cast<MPI_Aint>(n) * extent;
}

int first_tag(int peer, int partitions)
{
    const capsule::Hold hold(lock);
    int &next = tags->at(static_cast<size_t>(peer));
    const int first = next;
    next += partitions;
    return first;
}

int refuse(int error)
{
    return tell_error(MPI_COMM_WORLD, error);
}

bool fits(const Appointment &a, int from, const Partitioned &p)
{
    return from == p.peer && a.comm == p.appointment.comm && a.tag == p.appointment.tag;
}

void meet(Partitioned &p, const Appointment &a)
{
    p.appointment = a;
    p.is_refused = a.bytes * static_cast<uint64_t>(a.partitions) > p.bytes;
    make_parts(p);
    p.is_met = true;
}

// Receives appointments (tag 0) from a rank; by one thread at a time, to preserve their order.
void read_appointments(int peer)
{
    static std::atomic_flag reading;
    if (reading.test_and_set(std::memory_order_acquire))
        return;
    for (;;) {
        int flag = 0;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status = {};
        traffic::Improbe(peer, of_appointments, place, &flag, &message, &status);
        if (flag == 0)
            break;
        auto *read = take<Came>(1);
        read->from = status.MPI_SOURCE;
        traffic::Mrecv(&read->appointment, sizeof(Appointment), MPI_BYTE, &message,
                       MPI_STATUS_IGNORE);
        const capsule::Hold hold(lock);
        Came **last = &came;
        while (*last != nullptr)
            last = &(*last)->next;
        *last = read;
    }
    reading.clear(std::memory_order_release);
}

// Assigns the received appointments to requests.
void keep_appointments()
{
    const capsule::Hold hold(lock);
    for (Came **at = &came; *at != nullptr;) {
        Came *one = *at;
        Partitioned **found = &waiting;
        while (*found != nullptr && !fits(one->appointment, one->from, **found))
            found = &(*found)->next;
        Partitioned *p = *found;
        if (p == nullptr) {
            at = &one->next;
            continue;
        }
        *found = p->next;
        *at = one->next;
        if (p->is_forgotten)
            give(p, 1);
        else
            meet(*p, one->appointment);
        give(one, 1);
    }
}

void begin_part(Request &r, size_t i, int result)
{
    Partitioned &p = *r.partitioned;
    if (result != MPI_SUCCESS)
        r.error = result;
    p.marks[i].store(result == MPI_SUCCESS ? Partitioned::under_way : Partitioned::complete,
                     std::memory_order_release);
    p.begun++;
}

void receive_parts(Request &r)
{
    Partitioned &p = *r.partitioned;
    const uint64_t size = size_of(r);
    const uint64_t bytes = p.appointment.bytes;
    const bool is_whole = size != 0 && bytes % size == 0 && bytes / size <= INT_MAX;
    if (!is_whole && p.stage == nullptr)
        p.stage = take<char>(bytes * parts_of(p));
    for (size_t i = 0; i < parts_of(p); i++) {
        const int tag = p.appointment.first + static_cast<int>(i);
        const int result = is_whole ? traffic::Irecv(element(r, i * (bytes / size)),
                                                     static_cast<int>(bytes / size),
                                                     handle_of<MPI_Datatype>(r.datatype), p.peer,
                                                     tag, place, &p.parts[i])
                                    : traffic::Irecv(p.stage + i * bytes, static_cast<int>(bytes),
                                                     MPI_PACKED, p.peer, tag, place, &p.parts[i]);
        begin_part(r, i, result);
    }
}

void unpack(Request &r)
{
    Partitioned &p = *r.partitioned;
    const uint64_t bytes = p.appointment.bytes * parts_of(p);
    int at = 0;
    const int result =
        call(stock.Unpack, static_cast<const void *>(p.stage), static_cast<int>(bytes), &at,
             const_cast<void *>(r.buffer), static_cast<int>(p.own * p.count),
             static_cast<MPI_Datatype>(r.datatype->real), mpi::real_of(MPI_COMM_SELF));
    if (result != MPI_SUCCESS)
        r.error = result;
}

void complete(Request &r)
{
    const Partitioned &p = *r.partitioned;
    if (p.stage != nullptr)
        unpack(r);
    r.status = {};
    r.status.MPI_SOURCE = p.peer < 0 ? MPI_PROC_NULL : r.source;
    r.status.MPI_TAG = p.peer < 0 ? MPI_ANY_TAG : r.tag;
    if (!p.sends && p.is_met)
        abi::set_bytes(r.status, p.appointment.bytes * parts_of(p));
    r.complete = true;
}

bool part_is_complete(Request &r, size_t i)
{
    Partitioned &p = *r.partitioned;
    const uint8_t mark = p.marks[i].load(std::memory_order_acquire);
    if (mark != Partitioned::under_way)
        return mark == Partitioned::complete;
    if (!poll(*request_of(p.parts[i])))
        return false;
    const int error = hand_over(&p.parts[i], MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS)
        r.error = error;
    p.marks[i].store(Partitioned::complete, std::memory_order_release);
    return true;
}

// To be called by one thread at a time.
bool look_at_parts(Request &r)
{
    Partitioned &p = *r.partitioned;
    if (!p.sends && !p.is_met) {
        read_appointments(p.peer);
        keep_appointments();
        if (!p.is_met)
            return false;
    }
    if (p.is_refused) {
        r.error = MPI_ERR_TRUNCATE;
        r.untold = true;
        return true;
    }
    if (!p.sends && p.begun == 0)
        receive_parts(r);
    bool all = p.begun == p.appointment.partitions;
    for (size_t i = 0; i < parts_of(p); i++)
        all = part_is_complete(r, i) && all;
    return all;
}

// Whether the receiver's partition of this number has arrived.
bool has_arrived(const Partitioned &p, uint64_t number, uint64_t size)
{
    const uint64_t own = static_cast<uint64_t>(p.count) * size;
    const uint64_t theirs = p.appointment.bytes;
    if (p.stage != nullptr || !p.is_met || p.begun != p.appointment.partitions)
        return false; // unpacked only when all have arrived
    const uint64_t end = (number + 1) * own;
    for (uint64_t i = theirs == 0 ? parts_of(p) : number * own / theirs;
         i < parts_of(p) && i * theirs < end; i++) {
        if (p.marks[i] != Partitioned::complete)
            return false;
    }
    return true;
}

int describe_send(Request &r)
{
    Partitioned &p = *r.partitioned;
    if (p.peer < 0)
        return MPI_SUCCESS;
    make_parts(p);
    p.appointment.first = first_tag(p.peer, p.own);
    return traffic::Isend(&p.appointment, sizeof(p.appointment), MPI_BYTE, p.peer, of_appointments,
                          place, &p.told);
}

void describe_receive(Request &r)
{
    Partitioned &p = *r.partitioned;
    if (p.peer < 0)
        return;
    {
        const capsule::Hold hold(lock);
        Partitioned **last = &waiting;
        while (*last != nullptr)
            last = &(*last)->next;
        *last = &p;
    }
    keep_appointments();
}

} // namespace

void prepare_partitioned()
{
    if (capsule::symbol("PMPI_Psend_init") == nullptr)
        return;
    make_companion(MPI_COMM_WORLD, &place);
    if (!engine_counts)
        return;
    using Tags = std::vector<int, std::pmr::polymorphic_allocator<int>>;
    tags = new (memory().allocate(sizeof(Tags)))
        Tags(counted(MPI_COMM_WORLD)->peer_count(), of_appointments + 1, &memory());
}

bool counts_partitioned(MPI_Comm comm)
{
    return engine_counts && place != nullptr && counted(comm) != nullptr;
}

int make_partitioned(bool sends, const void *buf, int partitions, MPI_Count count,
                     MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    bookmark::Comm *counters = counted(comm);
    const bool nobody = peer == MPI_PROC_NULL;
    if (partitions < 0 || count < 0 || count > INT_MAX || tag < 0 ||
        (!nobody && (peer < 0 || uint32_t(peer) >= counters->peer_count())))
        return tell_error(comm, MPI_ERR_ARG);
    Request &r = make_request(Use::partitioned, counters, peer, tag, buf, 0, type);
    r.source = peer;
    r.persistent = true;
    auto *p = take<Partitioned>(1);
    r.partitioned = p;
    p->sends = sends;
    p->peer = nobody ? -1 : static_cast<int>(counters->world(peer));
    p->own = partitions;
    p->count = count;
    p->bytes = size_of(r) * static_cast<uint64_t>(count) * static_cast<uint64_t>(partitions);
    p->told = MPI_REQUEST_NULL;
    p->appointment = {.comm = counters->id(),
                      .tag = tag,
                      .first = 0,
                      .partitions = sends ? partitions : 0,
                      .reserved = 0,
                      .bytes = size_of(r) * static_cast<uint64_t>(count)};
    *request = handle_of_request(r);
    if (sends)
        return describe_send(r);
    describe_receive(r);
    return MPI_SUCCESS;
}

int send_part(Request &r, int i)
{
    Partitioned &p = *r.partitioned;
    if (!p.sends || !r.active || i < 0 || i >= p.own || (p.peer >= 0 && p.marks[i] != 0))
        return refuse(MPI_ERR_ARG);
    if (p.peer < 0)
        return MPI_SUCCESS;
    const int result = traffic::Isend(
        element(r, static_cast<uint64_t>(i) * uint64_t(p.count)), static_cast<int>(p.count),
        handle_of<MPI_Datatype>(r.datatype), p.peer, p.appointment.first + i, place, &p.parts[i]);
    begin_part(r, static_cast<size_t>(i), result);
    return result;
}

int ask_for_part(Request &r, int i, int *flag)
{
    Partitioned &p = *r.partitioned;
    if (p.sends || i < 0 || i >= p.own)
        return refuse(MPI_ERR_ARG);
    *flag = poll(r) || has_arrived(p, static_cast<uint64_t>(i), size_of(r));
    if (*flag != 0)
        pause_over();
    else if (must_attend)
        pause_for(r);
    return MPI_SUCCESS;
}

int start_partitioned(Request &r)
{
    Partitioned &p = *r.partitioned;
    p.begun = 0;
    for (size_t i = 0; p.marks != nullptr && i < parts_of(p); i++)
        p.marks[i] = 0;
    r.error = MPI_SUCCESS;
    r.complete = r.untold = false;
    r.active = true;
    if (p.peer < 0)
        complete(r);
    else if (!p.sends)
        poll_partitioned(r);
    return MPI_SUCCESS;
}

bool poll_partitioned(Request &r)
{
    Partitioned &p = *r.partitioned;
    if (p.polled.test_and_set(std::memory_order_acquire))
        return false;
    if (!r.complete && look_at_parts(r))
        complete(r);
    p.polled.clear(std::memory_order_release);
    if (!r.complete)
        sys::call(SYS_sched_yield);
    return r.complete;
}

void pause_for_partitioned(Request &r)
{
    const Partitioned &p = *r.partitioned;
    if (p.sends || p.peer < 0 || r.complete || !r.active) {
        if (must_attend)
            engine->stand_still();
    } else {
        pause_for(*counted(place), p.peer);
    }
}

void forget_partitioned(Request &r)
{
    Partitioned *p = r.partitioned;
    r.partitioned = nullptr;
    {
        const capsule::Hold hold(lock);
        if (!p->sends && p->peer >= 0 && !p->is_met) {
            // The record stays in the list: initializations match in order, also those never
            // started.
            p->is_forgotten = true;
            return;
        }
    }
    if (p->told != MPI_REQUEST_NULL)
        traffic::Wait(&p->told, MPI_STATUS_IGNORE);
    give(p->parts, parts_of(*p));
    give(p->marks, parts_of(*p));
    give(p->stage, p->appointment.bytes * parts_of(*p));
    give(p, 1);
}

} // namespace cryo::mpi::rank
