// SPDX-License-Identifier: Apache-2.0
// Derived datatypes across a restart: the library reports how each was made from predefined ones.
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/large_types.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

namespace {

bool is_f90(int combiner)
{
    return combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX ||
           combiner == MPI_COMBINER_F90_INTEGER;
}

bool can_make(int combiner)
{
    constexpr int known[] = {
        MPI_COMBINER_DUP,           MPI_COMBINER_CONTIGUOUS,     MPI_COMBINER_VECTOR,
        MPI_COMBINER_HVECTOR,       MPI_COMBINER_INDEXED,        MPI_COMBINER_HINDEXED,
        MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT,
        MPI_COMBINER_SUBARRAY,      MPI_COMBINER_DARRAY,         MPI_COMBINER_RESIZED,
    };
    for (const int one : known) {
        if (combiner == one)
            return true;
    }
    return is_f90(combiner);
}

constexpr int no_combiner = -1;

void describe_name(Story &story, MPI_Datatype real, TypeNote &note)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    call(stock.Type_get_name, real, name, &length);
    if (name[0] != 0)
        note.trimmings.name = story.notes.text(name);
}

bool describe_contents(Story &story, MPI_Datatype real, TypeNote &note, Why &why)
{
    const auto types = static_cast<size_t>(note.type_count);
    note.integers = story.notes.make<int>(static_cast<size_t>(note.integer_count) + 1);
    note.addresses = story.notes.make<MPI_Aint>(static_cast<size_t>(note.address_count) + 1);
    note.types = story.notes.make<TypeNote *>(types + 1);
    auto *parts = story.notes.make<MPI_Datatype>(types + 1);
    note.larges = story.notes.make<long long>(static_cast<size_t>(note.large_count) + 1);
    if (note.integers == nullptr || note.addresses == nullptr || note.types == nullptr ||
        note.larges == nullptr || parts == nullptr)
        return no_memory(why);
    if (!worked(contents_of_type(real, note, parts), "a datatype", why))
        return false;
    bool done = true;
    for (size_t i = 0; i < types; i++) {
        done = done && describe_type(story, parts[i], true, note.types[i], why);
        // The library returned a copy, or an additional reference.
        if (done && note.types[i]->predefined == nullptr && !is_f90(note.types[i]->combiner))
            call(stock.Type_free, &parts[i]);
    }
    return done;
}

int make(const TypeNote &note, MPI_Datatype *made)
{
    constexpr size_t few = 64;
    MPI_Datatype on_stack[few];
    const auto count = static_cast<size_t>(note.type_count);
    auto *types = count <= few
                      ? on_stack
                      : static_cast<MPI_Datatype *>(capsule::keep(count * sizeof(MPI_Datatype)));
    for (size_t i = 0; i < count; i++)
        types[i] = static_cast<MPI_Datatype>(note.types[i]->real);
    const int *n = note.integers;
    const MPI_Aint *a = note.addresses;
    MPI_Datatype first = count > 0 ? types[0] : nullptr;
    int result = MPI_ERR_TYPE;
    switch (note.large_count > 0 ? no_combiner : note.combiner) {
    case no_combiner:
        result = make_large_type(note, types, made);
        break;
    case MPI_COMBINER_DUP:
        result = call(stock.Type_dup, first, made);
        break;
    case MPI_COMBINER_CONTIGUOUS:
        result = call(stock.Type_contiguous, n[0], first, made);
        break;
    case MPI_COMBINER_VECTOR:
        result = call(stock.Type_vector, n[0], n[1], n[2], first, made);
        break;
    case MPI_COMBINER_HVECTOR:
        result = call(stock.Type_create_hvector, n[0], n[1], a[0], first, made);
        break;
    case MPI_COMBINER_INDEXED:
        result = call(stock.Type_indexed, n[0], n + 1, n + 1 + n[0], first, made);
        break;
    case MPI_COMBINER_HINDEXED:
        result = call(stock.Type_create_hindexed, n[0], n + 1, a, first, made);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        result = call(stock.Type_create_indexed_block, n[0], n[1], n + 2, first, made);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        result = call(stock.Type_create_hindexed_block, n[0], n[1], a, first, made);
        break;
    case MPI_COMBINER_STRUCT:
        result = call(stock.Type_create_struct, n[0], n + 1, a, types, made);
        break;
    case MPI_COMBINER_SUBARRAY: {
        const int d = n[0];
        result = call(stock.Type_create_subarray, d, n + 1, n + 1 + d, n + 1 + 2 * d, n[1 + 3 * d],
                      first, made);
        break;
    }
    case MPI_COMBINER_DARRAY: {
        const int d = n[2];
        result = call(stock.Type_create_darray, n[0], n[1], d, n + 3, n + 3 + d, n + 3 + 2 * d,
                      n + 3 + 3 * d, n[3 + 4 * d], first, made);
        break;
    }
    case MPI_COMBINER_F90_REAL:
        result = call(stock.Type_create_f90_real, n[0], n[1], made);
        break;
    case MPI_COMBINER_F90_COMPLEX:
        result = call(stock.Type_create_f90_complex, n[0], n[1], made);
        break;
    case MPI_COMBINER_F90_INTEGER:
        result = call(stock.Type_create_f90_integer, n[0], made);
        break;
    case MPI_COMBINER_RESIZED:
        result = call(stock.Type_create_resized, first, a[0], a[1], made);
        break;
    default:
        break;
    }
    if (types != on_stack)
        capsule::unkeep(types, count * sizeof(MPI_Datatype));
    return result;
}

// Gives a predefined datatype the name that the program has given it.
void rename(const TypeNote &note)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    auto real = static_cast<MPI_Datatype>(note.real);
    if (note.trimmings.name != nullptr &&
        call(stock.Type_get_name, real, name, &length) == MPI_SUCCESS &&
        strncmp(name, note.trimmings.name, sizeof(name)) != 0)
        call(stock.Type_set_name, real, note.trimmings.name);
}

// Recreates a datatype, its parts first.
bool remake(TypeNote &note, Why &why)
{
    if (note.real != nullptr)
        return true;
    if (note.predefined != nullptr) {
        note.real = note.predefined->real;
        if (note.real == nullptr) // another release, which lacks it
            return true;
        rename(note);
        return replay_attributes(note.predefined, note.trimmings.attributes, why);
    }
    for (int i = 0; i < note.type_count; i++) {
        if (!remake(*note.types[i], why))
            return false;
    }
    MPI_Datatype made = nullptr;
    if (!worked(make(note, &made), "making a datatype again", why))
        return false;
    note.real = made;
    // Whether it was committed is unknown; committing is harmless, and a file's view needs it.
    if (!is_f90(note.combiner) &&
        !worked(call(stock.Type_commit, &made), "committing a datatype again", why))
        return false;
    if (note.object == nullptr)
        return true;
    if (note.trimmings.name != nullptr)
        call(stock.Type_set_name, made, note.trimmings.name);
    bind_object(note.object, made);
    return replay_attributes(note.object, note.trimmings.attributes, why);
}

} // namespace

bool describe_type(Story &story, MPI_Datatype real, bool is_part, TypeNote *&note, Why &why)
{
    note = story.notes.make<TypeNote>();
    if (note == nullptr)
        return no_memory(why);
    Object *object = known_object(real);
    if (object != nullptr && is_predefined(object)) {
        note->predefined = object;
        story.types.add(note);
        return true;
    }
    if (!worked(envelope_of_type(real, *note), "a datatype", why))
        return false;
    if (!can_make(note->combiner))
        return refuse(why, "a datatype of a kind that Cryo does not know (combiner %d)",
                      note->combiner);
    if (!describe_contents(story, real, *note, why))
        return false;
    story.types.add(note);
    if (is_part)
        return true;
    note->object = object;
    if (!is_f90(note->combiner))
        describe_name(story, real, *note);
    return describe_attributes(story, object, note->trimmings.attributes, why);
}

// The program may have named them, or attached values to them.
bool describe_predefined_types(Story &story, Why &why)
{
    for (size_t i = 0; i < predefined_count; i++) {
        const Predefined &entry = predefined[i];
        void *real = entry.object->real;
        // Of MPICH's predefined datatypes some have two names.
        if (entry.kind != Kind::Datatype || entry.is_null || real == nullptr ||
            known_object(real) != entry.object)
            continue;
        auto *note = story.notes.make<TypeNote>();
        if (note == nullptr)
            return no_memory(why);
        note->predefined = entry.object;
        describe_name(story, static_cast<MPI_Datatype>(real), *note);
        story.types.add(note);
        if (!describe_attributes(story, entry.object, note->trimmings.attributes, why))
            return false;
    }
    return true;
}

void drop_parts_of_types(Story &story)
{
    for (TypeNote *note = story.types.first(); note != nullptr; note = note->next) {
        if (note->object == nullptr && note->predefined == nullptr && !is_f90(note->combiner)) {
            auto type = static_cast<MPI_Datatype>(note->real);
            call(stock.Type_free, &type);
        }
    }
}

bool replay_types(Story &story, Why &why)
{
    for (TypeNote *note = story.types.first(); note != nullptr; note = note->next) {
        if (!remake(*note, why))
            return false;
    }
    return true;
}

} // namespace cryo::mpi
