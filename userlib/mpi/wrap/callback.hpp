// SPDX-License-Identifier: Apache-2.0
//
// Functions of the program that the stock library calls. The library gets a function of ours that
// translates handles and crosses to the program's world before it calls the program's function.
//
// Where MPI passes user data to the function (extra_state), that is a record of ours:
//
//     auto *record = static_cast<Record *>(make_record(sizeof(Record)));
//
// Where it does not, as for operations and error handlers, there is a pool of functions that
// differ only in the slot they use:
//
//     static Slots<256> slots;
//     int slot = slots.find_or_add(program_function);
//
// RULE: code that runs before the crossing uses no thread-local storage.
#pragma once

#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/stock/handles.hpp"

#include <cstddef>

namespace cryo::mpi {

// Memory that is never freed; from capsule::keep.
void *make_record(size_t bytes);

// Our object for a handle that the library passes to a callback. The library may have made it for
// itself, as it copies the communicator of a file or window, with attributes; what the program has
// no handle of is forgotten again at the end of the callback, for nothing tells when it is freed.
class Shown
{
  public:
    template <class Handle>
    explicit Shown(Handle real) : object_(adopt_object(kind_of<Handle>, real))
    {}
    ~Shown()
    {
        if (object_ != nullptr)
            drop_object(object_);
    }
    Shown(const Shown &) = delete;
    Shown &operator=(const Shown &) = delete;
    Object *object() const { return object_; }
    template <class Handle>
    Handle as() const
    {
        return handle_of<Handle>(object_);
    }

  private:
    Object *object_;
};

// A program has few distinct callback functions, however often it registers them.
template <size_t most>
class Slots
{
  public:
    // The slot of a function, or -1 if there are too many.
    int find_or_add(void *function)
    {
        capsule::Hold hold(lock_);
        for (size_t i = 0; i < used_; i++) {
            if (functions_[i] == function)
                return static_cast<int>(i);
        }
        if (used_ == most)
            return -1;
        functions_[used_] = function;
        return static_cast<int>(used_++);
    }

    void *at(size_t slot) const { return functions_[slot]; }

  private:
    capsule::Lock lock_;
    size_t used_ = 0;
    void *functions_[most] = {};
};

} // namespace cryo::mpi
