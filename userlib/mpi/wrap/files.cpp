// SPDX-License-Identifier: Apache-2.0
// MPI-IO files across a restart: they are reopened without being created, with their old positions
// and views. A file's name is the only property that the library does not report.
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

namespace {

bool describe_view(Story &story, MPI_File real, FileNote &note, Why &why)
{
    MPI_Datatype etype = nullptr;
    MPI_Datatype filetype = nullptr;
    char representation[MPI_MAX_DATAREP_STRING + 1] = "";
    if (!worked(
            call(stock.File_get_view, real, &note.displacement, &etype, &filetype, representation),
            "the view of a file", why))
        return false;
    note.representation = story.notes.text(representation);
    const bool done = describe_type(story, etype, true, note.etype, why) &&
                      describe_type(story, filetype, true, note.filetype, why);
    if (done && note.etype->predefined == nullptr)
        call(stock.Type_free, &etype);
    if (done && note.filetype->predefined == nullptr)
        call(stock.Type_free, &filetype);
    return done;
}

bool is_writable(const FileNote &note)
{
    return (note.mode & MPI_MODE_RDONLY) == 0;
}

// Whether the shared position may be another than that of a file that has just been opened.
bool may_have_shared_position(const FileNote &note)
{
    return note.object->variant != 0 || (note.mode & MPI_MODE_APPEND) != 0;
}

// Accessed only through the shared pointer.
bool is_sequential(const FileNote &note)
{
    return (note.mode & MPI_MODE_SEQUENTIAL) != 0;
}

// The description of a file on which all members must agree.
struct Common {
    MPI_Offset size; // when it was saved
    MPI_Offset shared_position;
    MPI_Offset now;    // the size before anybody has cut it back
    MPI_Offset untold; // not 0: a member cannot tell it
};

// Members that have not used the shared position do not know it. The size that the file has now is
// agreed on, too: all members cut it back or none does, and one that asked for it later could find
// that another has cut it back already.
// A member that cannot tell it takes part, or the others would wait for it for ever.
bool agree(MPI_Comm comm, MPI_File real, const FileNote &note, Common &common, Why &why)
{
    Common mine = {note.size, note.shared_position, 0, 0};
    const bool told = worked(call(stock.File_get_size, real, &mine.now), "the size of a file", why);
    if (!told) {
        mine.now = 0;
        mine.untold = 1;
    }
    if (!worked(call(stock.Allreduce, static_cast<const void *>(&mine),
                     static_cast<void *>(&common), 4,
                     static_cast<MPI_Datatype>(object_of(MPI_OFFSET)->real),
                     static_cast<MPI_Op>(object_of(MPI_MAX)->real), comm),
                "agreeing on the size of a file", why))
        return false;
    if (told && common.untold != 0)
        return refuse(why, "another rank cannot tell the size of %s", note.name);
    return told;
}

bool cut_back(MPI_File real, const Common &common, const FileNote &note, Why &why)
{
    if (common.now < common.size)
        return refuse(why, "%s has %lld bytes, and had %lld when the program was saved", note.name,
                      static_cast<long long>(common.now), static_cast<long long>(common.size));
    if (common.now == common.size || !is_writable(note))
        return true;
    return worked(call(stock.File_set_size, real, common.size), "cutting a file back", why);
}

bool reopen(const Story &story, const FileNote &note, Why &why)
{
    const int mode = note.mode & ~(MPI_MODE_CREATE | MPI_MODE_EXCL);
    MPI_Comm comm = communicator_of(story, note.ranks);
    MPI_File real = nullptr;
    if (comm == nullptr)
        return refuse(why, "the communicator of %s cannot be made again", note.name);
    auto info = static_cast<MPI_Info>(note.info->real);
    if (call(stock.File_open, comm, note.name, mode, info, &real) != MPI_SUCCESS)
        return refuse(why, "%s, which the program had open, cannot be opened", note.name);
    Common common = {};
    bool done = agree(comm, real, note, common, why) && cut_back(real, common, note, why);
    call(stock.Comm_free, &comm);
    done = done &&
           worked(call(stock.File_set_view, real, note.displacement,
                       static_cast<MPI_Datatype>(note.etype->real),
                       static_cast<MPI_Datatype>(note.filetype->real), note.representation, info),
                  "the view of a file", why) &&
           (is_sequential(note) || worked(call(stock.File_seek, real, note.position, MPI_SEEK_SET),
                                          "the position in a file", why)) &&
           worked(call(stock.File_set_atomicity, real, note.atomicity), "a file", why) &&
           worked(call(stock.File_set_errhandler, real,
                       static_cast<MPI_Errhandler>(note.handler->real)),
                  "the error handler of a file", why);
    if (done && common.shared_position != 0)
        done = worked(call(stock.File_seek_shared, real, common.shared_position, MPI_SEEK_SET),
                      "the shared position in a file", why);
    if (done)
        bind_object(note.object, real);
    return done;
}

bool comes_before(const FileNote *a, const FileNote *b)
{
    const uint64_t mark_a = mark_of(a->ranks, {});
    const uint64_t mark_b = mark_of(b->ranks, {});
    return mark_a != mark_b ? mark_a < mark_b : a->object->made < b->object->made;
}

} // namespace

bool describe_file(Story &story, Object *object, Why &why)
{
    auto real = static_cast<MPI_File>(object->real);
    auto *note = story.notes.make<FileNote>();
    MPI_Group group = nullptr;
    MPI_Info info = nullptr;
    MPI_Errhandler handler = nullptr;
    if (note == nullptr)
        return no_memory(why);
    note->object = object;
    note->name = static_cast<const char *>(object->kept[0]);
    if (note->name == nullptr)
        return refuse(why, "an MPI file whose name is not known");
    call(stock.File_get_amode, real, &note->mode);
    if (is_sequential(*note) && !abi::sequential_files_tell)
        return refuse(why, "the MPI file %.200s, which is open for sequential access", note->name);
    call(stock.File_get_errhandler, real, &handler);
    const bool known = describe_handler(story, handler, note->handler, why);
    call(stock.Errhandler_free, &handler);
    if (!known || !worked(call(stock.File_get_group, real, &group), note->name, why))
        return false;
    bool done = describe_ranks(story, group, note->ranks, why);
    call(stock.Group_free, &group);
    if (done && (done = worked(call(stock.File_get_info, real, &info), note->name, why))) {
        done = describe_info(story, info, note->info, why);
        call(stock.Info_free, &info);
    }
    story.files.add(note);
    return done && describe_view(story, real, *note, why) &&
           (is_sequential(*note) ||
            worked(call(stock.File_get_position, real, &note->position), note->name, why)) &&
           (!may_have_shared_position(*note) ||
            worked(call(stock.File_get_position_shared, real, &note->shared_position), note->name,
                   why)) &&
           worked(call(stock.File_get_atomicity, real, &note->atomicity), note->name, why) &&
           worked(call(stock.File_get_size, real, &note->size), note->name, why);
}

bool replay_files(Story &story, Why &why)
{
    size_t count = 0;
    for (FileNote *note = story.files.first(); note != nullptr; note = note->next)
        count++;
    auto **all = story.notes.make<FileNote *>(count + 1);
    if (all == nullptr)
        return no_memory(why);
    count = 0;
    for (FileNote *note = story.files.first(); note != nullptr; note = note->next)
        all[count++] = note;
    std::sort(all, all + count, comes_before);
    for (size_t i = 0; i < count; i++) {
        if (!reopen(story, *all[i], why))
            return false;
    }
    return true;
}

// MPI_FILE_NULL has the error handler of MPI_File_open and of files that are opened later.
bool describe_default_of_files(Story &story, Why &why)
{
    MPI_Errhandler handler = nullptr;
    if (!worked(call(stock.File_get_errhandler, real_of(MPI_FILE_NULL), &handler),
                "the default error handler of files", why))
        return false;
    const bool known = describe_handler(story, handler, story.default_of_files, why);
    call(stock.Errhandler_free, &handler);
    return known;
}

// After the files: the program does not hear of one that cannot be opened again.
bool replay_default_of_files(const Story &story, Why &why)
{
    return worked(call(stock.File_set_errhandler, real_of(MPI_FILE_NULL),
                       static_cast<MPI_Errhandler>(story.default_of_files->real)),
                  "the default error handler of files", why);
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using namespace cryo;
using cryo::capsule::call;

EXPORTED int PMPI_File_open(MPI_Comm comm, const char *filename, int amode, MPI_Info info,
                            MPI_File *fh)
{
    const Inside inside;
    rank::Collective turn(comm);
    Made made(fh);
    const int result = turn.opened(
        done(call(stock.File_open, real_of(comm), filename, amode, real_of(info), made.place()),
             made),
        fh);
    if (result != MPI_SUCCESS ||
        !made.is_something()) // or a handler turned an error into a success
        return result;
    // Store the full path, so that the working directory may change.
    char whole[PATH_MAX];
    const char *name =
        strchr(filename, ':') == nullptr && realpath(filename, whole) != nullptr ? whole : filename;
    Object *object = made.object();
    object->kept_bytes[0] = strlen(name) + 1;
    object->kept[0] = capsule::keep(object->kept_bytes[0]);
    if (object->kept[0] != nullptr)
        memcpy(object->kept[0], name, object->kept_bytes[0]);
    return result;
}
ALIAS(MPI_File_open, PMPI_File_open)
