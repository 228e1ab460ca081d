// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/keyvals.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <algorithm>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

namespace {

capsule::Lock lock;
KeyvalOrigin *origins; // sorted by number
size_t count;
size_t room;

void grow()
{
    const size_t more = room == 0 ? 64 : 2 * room;
    auto *bigger = static_cast<KeyvalOrigin *>(capsule::keep(more * sizeof(KeyvalOrigin)));
    if (bigger == nullptr)
        fatal("no memory for MPI keyvals");
    std::copy(origins, origins + count, bigger);
    if (origins != nullptr)
        capsule::unkeep(origins, room * sizeof(KeyvalOrigin));
    origins = bigger;
    room = more;
}

int release(Kind kind, int number)
{
    switch (kind) {
    case Kind::Datatype:
        return call(stock.Type_free_keyval, &number);
    case Kind::Win:
        return call(stock.Win_free_keyval, &number);
    default:
        return call(stock.Comm_free_keyval, &number);
    }
}

// The library assigns the lowest free number; lower ones are allocated first and released later:
// the highest first, because MPICH assigns next what was released last.
bool make_with_number(const KeyvalOrigin &origin, Why &why)
{
    constexpr int most_between = 4096;
    auto *between = static_cast<int *>(capsule::keep(most_between * sizeof(int)));
    int taken = 0;
    int number = -1;
    if (between == nullptr)
        return no_memory(why);
    bool done = true;
    while (done) {
        done = worked(origin.make(origin, &number), "making a keyval again", why);
        if (!done || number == origin.number)
            break;
        if (number > origin.number || taken == most_between)
            done = refuse(why,
                          "the MPI library here has a keyval %d of its own; restart the program "
                          "with the library that it had",
                          origin.number);
        else
            between[taken++] = number;
    }
    while (taken > 0)
        release(origin.kind, between[--taken]);
    capsule::unkeep(between, most_between * sizeof(int));
    return done;
}

} // namespace

void remember_keyval(const KeyvalOrigin &origin)
{
    capsule::Hold hold(lock);
    const auto is_replaced = [&](const KeyvalOrigin &old) {
        return abi::keyval_place(old.number) == abi::keyval_place(origin.number);
    };
    count = static_cast<size_t>(std::remove_if(origins, origins + count, is_replaced) - origins);
    if (count == room)
        grow();
    size_t at = 0;
    while (at < count && origins[at].number < origin.number)
        at++;
    std::copy_backward(origins + at, origins + count, origins + count + 1);
    count++;
    origins[at] = origin;
}

void set_keyval_proxies(int number, const KeyvalProxies &proxies)
{
    capsule::Hold hold(lock);
    for (size_t i = 0; i < count; i++) {
        if (origins[i].number == number && origins[i].proxies != nullptr)
            *origins[i].proxies = proxies;
    }
}

// A keyval that the program has freed exists as long as an object has an attribute with it; for one
// that no longer exists, the library reports no attribute. The newest keyval is added first and so
// replayed last: MPI_Finalize deletes those of MPI_COMM_SELF in the reverse of the order in which
// they were set, which mostly is that of the keyvals.
bool describe_attributes(Story &story, Object *object, List<AttributeNote> &attributes, Why &why)
{
    for (size_t i = count; i-- > 0;) {
        int flag = 0;
        void *value = nullptr;
        if (origins[i].kind != object->kind ||
            origins[i].get(object, origins[i].number, &value, &flag) != MPI_SUCCESS || flag == 0)
            continue;
        auto *note = story.notes.make<AttributeNote>();
        if (note == nullptr)
            return no_memory(why);
        note->keyval = origins[i].number;
        note->value = value;
        attributes.add(note);
    }
    return true;
}

bool replay_keyvals(Why &why)
{
    for (size_t i = 0; i < count; i++) {
        if (!make_with_number(origins[i], why))
            return false;
    }
    return true;
}

bool replay_attributes(Object *object, const List<AttributeNote> &attributes, Why &why)
{
    for (const AttributeNote *note = attributes.first(); note != nullptr; note = note->next) {
        size_t at = 0;
        while (origins[at].number != note->keyval)
            at++;
        if (!worked(origins[at].set(object, note->keyval, note->value),
                    "giving an object its attribute again", why))
            return false;
    }
    return true;
}

} // namespace cryo::mpi
