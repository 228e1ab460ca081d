// SPDX-License-Identifier: Apache-2.0
//
// The library's own error of a call, where the function returns something else: MPICH's functions
// and some of Open MPI's return what the program's error handler leaves of the error, which may be
// MPI_SUCCESS.
//
//     const Heard heard;
//     const int result = call(stock.Win_lock, ...);
//     if (heard.of(result) == MPI_SUCCESS)
//         ...                                  // the library has done it
//     return result;
#pragma once

#include "mpi/rank/inside.hpp"
#include "mpi/stock/handles.hpp"

namespace cryo::mpi {

// The last error for which a handler of the program was called in this thread.
struct LastError {
    int depth; // of the function that failed (rank::depth)
    int code;
    int left; // by the handler, in `*code`
};
extern __thread LastError last_error
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

class Heard
{
  public:
    Heard() { last_error.code = MPI_SUCCESS; }

    // The error of the call made since, whatever the handler has made of it.
    int of(int result) const { return since(result); }

    // As of(), for callers without the last Heard object.
    static int since(int result)
    {
        return result == MPI_SUCCESS && has_any() ? last_error.code : result;
    }

    // The return value of the program's function for an error on which a handler was called.
    int returned(int error) const { return has_any() ? last_error.left : error; }

  private:
    // Handlers and other callbacks may have called MPI functions themselves.
    static bool has_any()
    {
        return __builtin_expect(last_error.code != MPI_SUCCESS, 0) &&
               last_error.depth == rank::depth;
    }
};

// Calls the error handler that the library would call for an error on a communicator. Returns what
// the program's function must return.
int tell_error(MPI_Comm comm, int error);

// True if the communicator or window has no error handler of its own, though the library reports
// this one. (It reports MPI_ERRORS_ARE_FATAL also where the program has set that.)
bool has_no_handler(const Object *object, MPI_Errhandler real);
// Whether a communicator has one of its own, without asking the library each time.
bool has_own_handler(Object *comm);
// Whether it has one of its own and is not MPI_COMM_WORLD.
inline bool has_special_handler(Object *comm)
{
    return abi::world_answers && comm != object_of(MPI_COMM_WORLD) && has_own_handler(comm);
}

// While this lives, the library calls no handler for a request's error: that is reported when the
// program asks, or to another handler. (Open MPI's MPI_Request_get_status calls none anyway.)
class QuietWorld
{
  public:
    explicit QuietWorld(bool is_wanted = true) : is_wanted_(abi::world_answers && is_wanted)
    {
        if (is_wanted_)
            before_ = begin();
    }
    ~QuietWorld()
    {
        if (is_wanted_)
            end(before_);
    }
    QuietWorld(const QuietWorld &) = delete;
    QuietWorld &operator=(const QuietWorld &) = delete;

  private:
    static MPI_Errhandler begin();
    static void end(MPI_Errhandler before);

    bool is_wanted_;
    MPI_Errhandler before_ = nullptr;
};

} // namespace cryo::mpi
