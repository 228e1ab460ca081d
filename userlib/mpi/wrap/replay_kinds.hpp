// SPDX-License-Identifier: Apache-2.0
//
// Notes about handles (replay.hpp), and what each kind of handle does with its notes. Handles that
// are part of others are described together with those; handles are recreated kind by kind, in the
// order of Story's lists.
//
//     auto *note = describing.notes.make<GroupNote>();    // zero-filled; null: no memory left
#pragma once

#include "functions.gen.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/handles.hpp"
#include "mpi/stock/objects.hpp"
#include "mpi/stock/stock.hpp"

#include <type_traits>

namespace cryo::mpi {

// Memory for notes, from capsule::keep: part of the image, and of no libc's heap.
class Notes
{
  public:
    void *take(size_t bytes);
    template <class T>
    T *make(size_t count = 1)
    {
        static_assert(std::is_trivially_destructible_v<T>);
        return static_cast<T *>(take(count * sizeof(T))); // NOLINT(bugprone-sizeof-expression): T
    }
    char *text(const char *from);
    void forget();

  private:
    struct Block {
        Block *next;
        size_t bytes, used;
    };
    Block *blocks_ = nullptr;
};

template <class Note>
class List
{
  public:
    void add(Note *note)
    {
        note->next = first_;
        first_ = note;
    }
    Note *first() const { return first_; }
    void clear() { first_ = nullptr; }

  private:
    Note *first_ = nullptr;
};

// Members of a group, as ranks in MPI_COMM_WORLD.
struct Ranks {
    int count;
    int *world;
};

struct InfoNote {
    InfoNote *next;
    Object *object; // null: it belongs to another handle
    int count;
    char **keys;
    char **values;
    void *real;
};

struct GroupNote {
    GroupNote *next;
    Object *object;
    Ranks ranks;
};

// An error handler of the program, which may survive only in the objects that use it.
struct HandlerNote {
    HandlerNote *next;
    Object *object;
    void *old_real; // the old library's handle, to find notes again
    Object *predefined;
    uint32_t variant, slot;
    void *real;
};

struct AttributeNote {
    AttributeNote *next;
    int keyval;
    void *value;
};

// Properties that every communicator, datatype or window may have.
struct Trimmings {
    char *name;
    List<AttributeNote> attributes;
    HandlerNote *handler;
    InfoNote *info;
};

struct TypeNote {
    TypeNote *next;
    Object *object;     // null: only part of others
    Object *predefined; // one of the library's own
    int combiner;
    int integer_count, address_count, large_count, type_count;
    int *integers;
    MPI_Aint *addresses;
    long long *larges; // for functions with large counts
    TypeNote **types;
    Trimmings trimmings;
    void *real;
};

struct CommNote {
    CommNote *next;
    Object *object;
    bool is_predefined;
    Ranks ranks;
    bool is_inter;
    Ranks remote;
    int topology;
    int dimensions; // or nodes, or sources
    int edges;      // or targets
    int *numbers;   // dims and periods; index and edges; sources, weights, targets, weights
    bool is_weighted;
    Trimmings trimmings;
};

struct FileNote {
    FileNote *next;
    Object *object;
    const char *name; // stored in the object
    int mode;
    Ranks ranks;
    InfoNote *info;
    HandlerNote *handler;
    MPI_Offset displacement, position, shared_position, size;
    TypeNote *etype, *filetype;
    char *representation;
    int atomicity;
};

struct WindowNote {
    WindowNote *next;
    Object *object; // its state has the rest
    Ranks ranks;
    Trimmings trimmings;
};

struct SessionNote {
    SessionNote *next;
    Object *object;
    HandlerNote *handler;
    InfoNote *info;
};

struct OperationNote {
    OperationNote *next;
    Object *object;
};

// Everything that is being described, or recreated.
struct Story {
    Notes notes;
    List<InfoNote> infos;
    List<GroupNote> groups;
    List<HandlerNote> handlers;
    List<SessionNote> sessions;
    List<OperationNote> operations;
    List<TypeNote> types;
    List<CommNote> comms;
    List<WindowNote> windows;
    List<FileNote> files;
    HandlerNote *default_of_files;
    MPI_Group world; // the library's
};

// While this lives, errors on a communicator are returned as results. If it has no handler of its
// own, its errors are subject to MPI_COMM_WORLD's.
class ErrorsReturn
{
  public:
    explicit ErrorsReturn(const Object *comm);
    ~ErrorsReturn();
    ErrorsReturn(const ErrorsReturn &) = delete;
    ErrorsReturn &operator=(const ErrorsReturn &) = delete;
    MPI_Errhandler before() const { return before_; }

  private:
    const Object *comm_;
    MPI_Errhandler before_ = nullptr;
};

using Why = capsule::Refusal;

// replay_kinds.cpp: shared by several kinds.
bool no_memory(Why &why);
// Returns false and sets `why` if `what` failed with this result.
bool worked(int result, const char *what, Why &why);
bool describe_ranks(Story &story, MPI_Group real, Ranks &ranks, Why &why);
MPI_Group group_of(const Story &story, const Ranks &ranks); // null: could not be made

// replay_small.cpp
bool describe_info(Story &story, MPI_Info real, InfoNote *&note, Why &why);
bool replay_infos(Story &story, Why &why);
bool describe_group(Story &story, Object *object, Why &why);
bool replay_groups(Story &story, Why &why);
bool describe_handler(Story &story, MPI_Errhandler real, HandlerNote *&note, Why &why);
bool replay_handlers(Story &story, Why &why);
void drop_nameless(Story &story); // frees what only other objects refer to, once they have it

// replay_types.cpp
// `is_part`: a part of another datatype, not a handle of the program.
bool describe_type(Story &story, MPI_Datatype real, bool is_part, TypeNote *&note, Why &why);
bool describe_predefined_types(Story &story, Why &why);
void drop_parts_of_types(Story &story);
bool replay_types(Story &story, Why &why);

// replay_communicators.cpp
bool describe_communicator(Story &story, Object *object, bool is_predefined, Why &why);
bool replay_communicators(Story &story, Why &why);
MPI_Comm communicator_of(const Story &story, const Ranks &ranks); // null: could not be made
// A number made of the ranks, the same at all members.
uint64_t mark_of(const Ranks &ranks, const Ranks &remote);

// replay_windows.cpp
bool describe_window(Story &story, Object *object, Why &why);
bool replay_windows(Story &story, Why &why);

// files.cpp
bool describe_file(Story &story, Object *object, Why &why);
bool replay_files(Story &story, Why &why);
bool describe_default_of_files(Story &story, Why &why);
bool replay_default_of_files(const Story &story, Why &why);

// sessions.cpp
bool describe_session(Story &story, Object *object, Why &why);
bool replay_sessions(Story &story, Why &why);

// operations.cpp, error_handlers.cpp: these have the program's functions.
bool replay_operation(Object *operation, Why &why);
bool replay_error_handler(HandlerNote &note, Why &why);
bool find_error_handler(void *real, uint32_t &variant, uint32_t &slot);
void forget_error_handlers();

// attributes.cpp, keyvals.cpp: these have the program's keyvals.
bool describe_attributes(Story &story, Object *object, List<AttributeNote> &attributes, Why &why);
bool replay_keyvals(Why &why);
bool replay_attributes(Object *object, const List<AttributeNote> &attributes, Why &why);

} // namespace cryo::mpi
