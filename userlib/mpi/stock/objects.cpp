// SPDX-License-Identifier: Apache-2.0
#include "mpi/stock/objects.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/stock/blocks.hpp"
#include "mpi/stock/directory.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/stock.hpp"

#include <algorithm>

namespace cryo::mpi {

namespace {

using capsule::Hold;
using capsule::Lock;

Lock lock;               // protects everything here; held briefly
Object *free_objects[2]; // small and large ones
Object *nulls[kind_count];
uint64_t objects_made;
size_t requests;
Blocks blocks;

size_t index_of(Kind kind)
{
    return static_cast<size_t>(kind);
}

// Fortran numbers of one kind. A free entry holds the next free number.
class Numbers
{
  public:
    void set(int number, Object *object)
    {
        prepare();
        if (number < 0 || number >= most)
            fatal("the MPI library's Fortran number %d of a predefined handle is too large",
                  number);
        entries_[number].object = object;
        if (number >= next_)
            next_ = number + 1;
    }

    int add(Object *object)
    {
        prepare();
        int number = free_;
        if (number != 0)
            free_ = entries_[number].next_free;
        else if (next_ < most)
            number = next_++;
        else
            fatal("more than %d MPI handles of one kind are used from Fortran", most);
        entries_[number] = {object, 0};
        return number;
    }

    void remove(int number)
    {
        entries_[number] = {nullptr, free_};
        free_ = number;
    }

    Object *at(int number) const
    {
        return entries_ != nullptr && number >= 0 && number < next_ ? entries_[number].object
                                                                    : nullptr;
    }

  private:
    struct Entry {
        Object *object;
        int next_free;
    };
    static constexpr int most = 1 << 20;

    void prepare()
    {
        if (entries_ == nullptr)
            entries_ = static_cast<Entry *>(keep_or_die(most * sizeof(Entry)));
    }

    Entry *entries_ = nullptr;
    int next_ = 1;
    int free_ = 0;
};

Directory directory;
Numbers numbers[kind_count]; // integer handles are derived from these, too

constexpr uint32_t most_handles = (1U << 26) - 1; // per kind

// The library's predefined objects, by parts of their handles: storage class, kind, lowest bits.
Object *library_objects[4][16][256];

Object *&library_object(uint32_t handle)
{
    return library_objects[handle >> 30][handle >> 26 & 0xf][handle & 0xff];
}

// The placeholder for a number that is not a handle, such as that of a freed object. Its own handle
// does not exist in the library either, which reports that.
struct alignas(64) Nothing {
    char place[large_object];
};
Nothing nothing[kind_count];

// Requests come and go with every message, and the library never returns the same one twice.
bool is_listed(Kind kind)
{
    return kind != Kind::Request;
}

bool has_attributes(Kind kind)
{
    return attributes_offset(kind, false) != 0;
}

bool is_large(Kind kind)
{
    return has_attributes(kind) || kind == Kind::Request || kind == Kind::Message;
}

// The memory that the Fortran library may read beyond our members exists and is zero.
size_t bytes_of(Kind kind)
{
    return is_large(kind) ? large_object : 256;
}
static_assert(sizeof(Object) <= 0xd0); // where attributes begin

void add_free_objects(Kind kind)
{
    const size_t bytes = bytes_of(kind);
    Object *&list = free_objects[is_large(kind)];
    char *fresh = blocks.add();
    for (size_t at = 0; at + bytes <= Blocks::bytes; at += bytes) {
        auto *object = reinterpret_cast<Object *>(fresh + at);
        object->next = list;
        list = object;
    }
}

void mark_attributes(Object *object)
{
    if (!has_attributes(object->kind))
        return;
    auto *ours = reinterpret_cast<char *>(object);
    for (size_t release = 0; release < 2; release++)
        *reinterpret_cast<Object **>(ours + attributes_offset(object->kind, release != 0)) = object;
}

void set_number(Object *object, int number)
{
    object->fortran = number;
    object->group_number = number;
}

Object *new_object(Kind kind, void *real)
{
    Object *&list = free_objects[is_large(kind)];
    if (list == nullptr)
        add_free_objects(kind);
    Object *object = list;
    list = object->next;
    *object = {};
    object->real = real;
    object->kind = kind;
    object->references = 1;
    object->made = ++objects_made;
    object->fortran = -1;
    object->callbacks_are_c = true;
    object->is_completed = kind == Kind::Request ? 1 : 0;
    mark_attributes(object);
    if (const uint32_t first = abi::first_handle(index_of(kind))) {
        set_number(object, numbers[index_of(kind)].add(object));
        object->handle = first + static_cast<uint32_t>(object->fortran);
    } else if (kind == Kind::Group) { // Open MPI's Fortran library reads the number directly
        set_number(object, numbers[index_of(kind)].add(object));
    }
    if (is_listed(kind))
        directory.add(object);
    else
        requests++;
    return object;
}

} // namespace

Object *no_object(Kind kind)
{
    return reinterpret_cast<Object *>(&nothing[index_of(kind)]);
}

Object *object_with_handle(Kind kind, uint32_t handle)
{
    if (handle == 0)
        return nullptr;
    Object *found = nullptr;
    if (handle >> 30 != 0)
        found = library_object(handle);
    else if ((handle & ~most_handles) == abi::first_handle(index_of(kind)))
        found = numbers[index_of(kind)].at(static_cast<int>(handle & most_handles));
    return found != nullptr && found->kind == kind ? found : no_object(kind);
}

bool is_no_object(const Object *object)
{
    return object == no_object(object->kind);
}

bool is_predefined(const Object *object)
{
    return object->references == UINT32_MAX;
}

bool is_object(const Object *object, Kind kind)
{
    // Most handles are these; the list never changes and needs no lock.
    if (std::any_of(predefined, predefined + predefined_count, [&](const Predefined &entry) {
            return entry.object == object && entry.kind == kind;
        }))
        return true;
    const auto place = reinterpret_cast<uintptr_t>(object);
    if (place % bytes_of(kind) != 0)
        return false;
    Hold hold(lock);
    return blocks.contain(place) && object->references != 0 && object->kind == kind;
}

Object *known_object(void *real)
{
    Hold hold(lock);
    return directory.find(real);
}

Object *make_object(Kind kind, void *real)
{
    Hold hold(lock);
    return new_object(kind, real);
}

Object *adopt_object(Kind kind, void *real)
{
    if (real == nullptr)
        return nullptr;
    Hold hold(lock);
    if (Object *known = directory.find(real)) {
        if (!is_predefined(known))
            known->references++;
        return known;
    }
    return new_object(kind, real);
}

void drop_object(Object *object)
{
    if (is_predefined(object))
        return;
    Hold hold(lock);
    if (--object->references > 0)
        return;
    if (object->fortran >= 0)
        numbers[index_of(object->kind)].remove(object->fortran);
    if (is_listed(object->kind))
        directory.remove(object);
    else
        requests--;
    for (size_t i = 0; i < 2; i++) {
        if (object->kept[i] != nullptr)
            capsule::unkeep(object->kept[i], object->kept_bytes[i]);
    }
    if (object->window != nullptr)
        capsule::unkeep(object->window, object->window_bytes);
    Object *&list = free_objects[is_large(object->kind)];
    object->next = list;
    list = object;
}

Object *null_object(Kind kind)
{
    return nulls[index_of(kind)];
}

int number_object(Object *object)
{
    Hold hold(lock);
    if (object->fortran < 0)
        set_number(object, numbers[index_of(object->kind)].add(object));
    return object->fortran;
}

Object *numbered_object(Kind kind, int number)
{
    Hold hold(lock);
    return numbers[index_of(kind)].at(number);
}

void number_predefined(Object *object, int number)
{
    Hold hold(lock);
    set_number(object, number);
    numbers[index_of(object->kind)].set(number, object);
}

size_t live_requests()
{
    return requests;
}

bool objects_are_busy()
{
    return lock.is_taken();
}

Object *next_object(size_t &from)
{
    Object *object = directory.next(from);
    while (object != nullptr && is_predefined(object))
        object = directory.next(from);
    return object;
}

void forget_library_handles()
{
    lock.forget();
    directory.clear();
    for (size_t i = 0; i < predefined_count; i++)
        predefined[i].object->real = nullptr;
}

void bind_object(Object *object, void *real)
{
    Hold hold(lock);
    object->real = real;
    object->owed = object->references - 1;
    directory.add(object);
}

namespace {

// The null file of a library whose other handles are integers is a null pointer.
bool is_by_name(const Predefined &entry)
{
    return entry.handle == 0 && abi::first_handle(index_of(Kind::Comm)) == 0;
}

void set_handle(const Predefined &entry)
{
    entry.object->handle = entry.handle;
    if (entry.handle >> 30 != 0)
        library_object(entry.handle) = entry.object;
    else
        numbers[index_of(entry.kind)].set(0, entry.object);
}

} // namespace

const char *bind_predefined()
{
    for (size_t i = 0; i < kind_count; i++) {
        Object *object = no_object(static_cast<Kind>(i));
        const uint32_t handle = abi::first_handle(i) + most_handles;
        object->real = reinterpret_cast<void *>(uintptr_t{handle});
        object->handle = handle;
        object->kind = static_cast<Kind>(i);
        object->references = UINT32_MAX;
        object->fortran = -1;
    }
    for (size_t i = 0; i < predefined_count; i++) {
        const Predefined &entry = predefined[i];
        void *real = is_by_name(entry) ? capsule::symbol(entry.symbol)
                                       : reinterpret_cast<void *>(uintptr_t{entry.handle});
        if (real == nullptr && is_by_name(entry) && !entry.is_rare)
            return entry.symbol;
        Hold hold(lock);
        if (entry.object->real != nullptr)
            directory.remove(entry.object);
        entry.object->real = real;
        entry.object->kind = entry.kind;
        entry.object->references = UINT32_MAX;
        entry.object->fortran = -1;
        mark_attributes(entry.object);
        if (!is_by_name(entry))
            set_handle(entry);
        if (real != nullptr)
            directory.add(entry.object);
        if (entry.is_null)
            nulls[index_of(entry.kind)] = entry.object;
    }
    return nullptr;
}

} // namespace cryo::mpi
