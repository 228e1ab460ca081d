// SPDX-License-Identifier: Apache-2.0
// Groups, infos and error handlers across a restart.
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

namespace cryo::mpi {

using capsule::call;

bool describe_info(Story &story, MPI_Info real, InfoNote *&note, Why &why)
{
    char key[MPI_MAX_INFO_KEY + 1];
    static char value[MPI_MAX_INFO_VAL + 1]; // only one thread describes at a time
    int flag = 0;
    note = story.notes.make<InfoNote>();
    if (note == nullptr)
        return no_memory(why);
    call(stock.Info_get_nkeys, real, &note->count);
    note->keys = story.notes.make<char *>(static_cast<size_t>(note->count) + 1);
    note->values = story.notes.make<char *>(static_cast<size_t>(note->count) + 1);
    if (note->keys == nullptr || note->values == nullptr)
        return no_memory(why);
    for (int i = 0; i < note->count; i++) {
        if (!worked(call(stock.Info_get_nthkey, real, i, key), "an info", why) ||
            !worked(call(stock.Info_get, real, key, MPI_MAX_INFO_VAL, value, &flag), "an info",
                    why))
            return false;
        note->keys[i] = story.notes.text(key);
        note->values[i] = story.notes.text(value);
        if (note->keys[i] == nullptr || note->values[i] == nullptr)
            return no_memory(why);
    }
    story.infos.add(note);
    return true;
}

bool replay_infos(Story &story, Why &why)
{
    for (InfoNote *note = story.infos.first(); note != nullptr; note = note->next) {
        MPI_Info info = nullptr;
        if (!worked(call(stock.Info_create, &info), "making an info again", why))
            return false;
        for (int i = 0; i < note->count; i++) {
            if (!worked(call(stock.Info_set, info, note->keys[i], note->values[i]),
                        "making an info again", why))
                return false;
        }
        note->real = info;
        if (note->object != nullptr)
            bind_object(note->object, info);
    }
    return true;
}

bool describe_group(Story &story, Object *object, Why &why)
{
    auto *note = story.notes.make<GroupNote>();
    if (note == nullptr)
        return no_memory(why);
    note->object = object;
    story.groups.add(note);
    return describe_ranks(story, static_cast<MPI_Group>(object->real), note->ranks, why);
}

bool replay_groups(Story &story, Why &why)
{
    for (GroupNote *note = story.groups.first(); note != nullptr; note = note->next) {
        MPI_Group made = group_of(story, note->ranks);
        if (made == nullptr)
            return worked(MPI_ERR_GROUP, "making a group again", why);
        bind_object(note->object, made);
    }
    return true;
}

bool describe_handler(Story &story, MPI_Errhandler real, HandlerNote *&note, Why &why)
{
    for (note = story.handlers.first(); note != nullptr; note = note->next) {
        if (note->old_real == real)
            return true;
    }
    note = story.notes.make<HandlerNote>();
    if (note == nullptr)
        return no_memory(why);
    note->old_real = real;
    Object *object = known_object(real);
    if (object != nullptr && is_predefined(object))
        note->predefined = object;
    else if (!find_error_handler(real, note->variant, note->slot))
        return worked(MPI_ERR_ARG, "an error handler that Cryo has not seen", why);
    else
        note->object = object;
    story.handlers.add(note);
    return true;
}

bool replay_handlers(Story &story, Why &why)
{
    forget_error_handlers();
    for (HandlerNote *note = story.handlers.first(); note != nullptr; note = note->next) {
        if (note->predefined != nullptr)
            note->real = note->predefined->real;
        else if (!replay_error_handler(*note, why))
            return false;
        if (note->object != nullptr)
            bind_object(note->object, note->real);
    }
    return true;
}

void drop_nameless(Story &story)
{
    for (HandlerNote *note = story.handlers.first(); note != nullptr; note = note->next) {
        if (note->predefined == nullptr && note->object == nullptr) {
            auto handler = static_cast<MPI_Errhandler>(note->real);
            call(stock.Errhandler_free, &handler);
        }
    }
    for (InfoNote *note = story.infos.first(); note != nullptr; note = note->next) {
        if (note->object == nullptr) {
            auto info = static_cast<MPI_Info>(note->real);
            call(stock.Info_free, &info);
        }
    }
    drop_parts_of_types(story);
}

} // namespace cryo::mpi
