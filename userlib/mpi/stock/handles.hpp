// SPDX-License-Identifier: Apache-2.0
//
// Translation of handles in the arguments of MPI functions, for wrappers made by generate.py.
//
//     real_of(comm)                          a handle that goes in
//     Made made(newcomm);                    one that comes out
//     Changed changed(request);              one that goes in and may come back as null
//     RealArray types(array, n);             arrays of the same
//     ChangedArray requests(array, n);
//     KeptArray types(array, n);             an array that must live as long as the request made
//     return done(call(..., made.place(), ...), made, changed);
//     return done_keeping(call(...), made_request, sendtypes, recvtypes);
#pragma once

#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/objects.hpp"
#include "mpi/stock/stock.hpp"

#include <type_traits>

namespace cryo::mpi {

template <class Handle>
constexpr Kind kind_of = Kind::Comm;
template <>
inline constexpr Kind kind_of<MPI_Datatype> = Kind::Datatype;
template <>
inline constexpr Kind kind_of<MPI_Errhandler> = Kind::Errhandler;
template <>
inline constexpr Kind kind_of<MPI_File> = Kind::File;
template <>
inline constexpr Kind kind_of<MPI_Group> = Kind::Group;
template <>
inline constexpr Kind kind_of<MPI_Info> = Kind::Info;
template <>
inline constexpr Kind kind_of<MPI_Op> = Kind::Op;
template <>
inline constexpr Kind kind_of<MPI_Request> = Kind::Request;
template <>
inline constexpr Kind kind_of<MPI_Message> = Kind::Message;
template <>
inline constexpr Kind kind_of<MPI_Win> = Kind::Win;
template <>
inline constexpr Kind kind_of<MPI_Session> = Kind::Session;

template <class Handle>
Object *object_of(Handle handle)
{
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<Object *>(handle);
    else
        return object_with_handle(kind_of<Handle>, static_cast<uint32_t>(handle.value));
}

template <class Handle>
Handle handle_of(Object *object)
{
    if constexpr (std::is_pointer_v<Handle>)
        return reinterpret_cast<Handle>(object);
    else
        return object == nullptr ? Handle() : Handle(object->handle);
}

template <class Handle>
Handle real_of(Handle handle)
{
    return handle == nullptr ? nullptr : static_cast<Handle>(object_of(handle)->real);
}

// For an argument that is not significant in every process, where the program may pass anything:
// the handle, or the null handle in place of what is none. Numbers are looked up anyway.
template <class Handle>
Handle handle_or_null(Handle handle)
{
    constexpr Kind kind = kind_of<Handle>;
    if constexpr (std::is_pointer_v<Handle>)
        return handle == nullptr || is_object(object_of(handle), kind)
                   ? handle
                   : handle_of<Handle>(null_object(kind));
    else
        return handle;
}

// Our handle for one that the library returned: the known one, or a new one.
template <class Handle>
Handle adopt(Handle real)
{
    if constexpr (kind_of<Handle> == Kind::Request) {
        Object *null = null_object(Kind::Request);
        return handle_of<Handle>(real == null->real ? null : make_object(Kind::Request, real));
    } else {
        return handle_of<Handle>(adopt_object(kind_of<Handle>, real));
    }
}

// After a call that may have replaced a handle, e.g. by null: adopts what the library wrote.
template <class Handle>
void update(Handle &ours, Handle real)
{
    Object *object = object_of(ours);
    if (object == nullptr || object->real == real)
        return;
    drop_object(object);
    ours = adopt(real);
}

template <class Handle>
class Made
{
  public:
    explicit Made(Handle *place) : place_(place) {}
    Handle *place() { return place_ != nullptr ? &real_ : nullptr; }
    void settle(int result)
    {
        if (place_ == nullptr)
            return;
        // Nothing was created, and an error handler of the program turned the error into a success;
        // or the null handle is 0.
        const auto null = static_cast<Handle>(null_object(kind_of<Handle>)->real);
        if (real_ == nullptr && (result == MPI_SUCCESS || null == nullptr))
            real_ = null;
        // After an error the library may have written its null handle.
        if (real_ == null || result == MPI_SUCCESS)
            *place_ = adopt(real_);
    }
    // The object behind the handle, once settled.
    Object *object() const { return real_ != nullptr ? object_of(*place_) : nullptr; }
    bool is_something() const
    {
        return real_ != nullptr && real_ != null_object(kind_of<Handle>)->real;
    }

  private:
    Handle *place_;
    Handle real_ = nullptr;
};

template <class Handle>
class Changed
{
  public:
    explicit Changed(Handle *place)
        : place_(place), real_(place != nullptr ? real_of(*place) : nullptr)
    {}
    Handle *place() { return place_ != nullptr ? &real_ : nullptr; }
    void settle(int /*result*/)
    {
        if (place_ != nullptr)
            update(*place_, real_);
    }

  private:
    Handle *place_;
    Handle real_;
};

// Copies of an array of handles, on the stack if they are few.
template <class Handle>
class RealArray
{
  public:
    RealArray(const Handle *handles, int count)
        : count_(handles != nullptr && count > 0 ? static_cast<size_t>(count) : 0)
    {
        if (handles == nullptr)
            return;
        real_ = count_ <= few ? on_stack_ : static_cast<Handle *>(capsule::keep(bytes()));
        for (size_t i = 0; i < count_; i++)
            real_[i] = real_of(handles[i]);
    }
    ~RealArray()
    {
        if (count_ > few)
            capsule::unkeep(real_, bytes());
    }
    RealArray(const RealArray &) = delete;
    RealArray &operator=(const RealArray &) = delete;
    Handle *place() { return real_; }
    size_t bytes() const { return count_ * sizeof(Handle); }

  protected:
    static constexpr size_t few = 64;
    size_t count_;
    Handle *real_ = nullptr;
    Handle on_stack_[few];
};

template <class Handle>
class ChangedArray : public RealArray<Handle>
{
  public:
    ChangedArray(Handle *handles, int count) : RealArray<Handle>(handles, count), ours_(handles) {}
    void settle(int /*result*/)
    {
        for (size_t i = 0; i < this->count_; i++)
            update(ours_[i], this->real_[i]);
    }

  private:
    Handle *ours_;
};

// Not freed by its destructor: the request takes it over, or it is freed if there is none. The
// program's handles follow the library's; kept_again() translates them once more.
template <class Handle>
class KeptArray
{
  public:
    KeptArray(const Handle *handles, int count)
    {
        if (handles == nullptr || count <= 0)
            return;
        bytes_ = 2 * static_cast<size_t>(count) * sizeof(Handle);
        real_ = static_cast<Handle *>(capsule::keep(bytes_));
        for (int i = 0; i < count; i++) {
            real_[i] = real_of(handles[i]);
            real_[count + i] = handles[i];
        }
    }
    KeptArray(const KeptArray &) = delete;
    KeptArray &operator=(const KeptArray &) = delete;
    Handle *place() { return real_; }
    size_t bytes() const { return bytes_; }
    void give_to(Object *object, size_t slot)
    {
        if (object != nullptr) {
            object->kept[slot] = real_;
            object->kept_bytes[slot] = bytes_;
        } else if (real_ != nullptr) {
            capsule::unkeep(real_, bytes_);
        }
    }

  private:
    Handle *real_ = nullptr;
    size_t bytes_ = 0;
};

// The library detects aliased buffers by comparing its array arguments: an array that the program
// passes twice must be passed twice.
template <class Handle, class Array>
Handle *second_place(const Handle *first, Array &real_first, const Handle *second,
                     Array &real_second)
{
    const bool are_one = first == second && real_first.bytes() == real_second.bytes();
    return are_one ? real_first.place() : real_second.place();
}

template <class Handle>
Handle *kept_again(Object *object, size_t slot)
{
    auto *kept = static_cast<Handle *>(object->kept[slot]);
    const size_t count = object->kept_bytes[slot] / sizeof(Handle) / 2;
    for (size_t i = 0; kept != nullptr && i < count; i++)
        kept[i] = real_of(kept[count + i]);
    return kept;
}

// After a restart the library counts one reference to an object that was handed out several times;
// the others are released without calling the library.
template <class Handle>
bool was_owed(Handle *handle)
{
    if (handle == nullptr || *handle == nullptr || object_of(*handle)->owed == 0)
        return false;
    object_of(*handle)->owed--;
    drop_object(object_of(*handle));
    *handle = handle_of<Handle>(null_object(kind_of<Handle>));
    return true;
}

template <class... Settled>
int done(int result, Settled &...settled)
{
    (settled.settle(result), ...);
    return result;
}

template <class Handle>
int done_keeping(int result, Made<MPI_Request> &request, KeptArray<Handle> &first,
                 KeptArray<Handle> &second)
{
    request.settle(result);
    Object *object = result == MPI_SUCCESS ? request.object() : nullptr;
    first.give_to(object, 0);
    second.give_to(object, 1);
    return result;
}

} // namespace cryo::mpi
