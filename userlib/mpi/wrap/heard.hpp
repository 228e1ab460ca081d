// SPDX-License-Identifier: Apache-2.0
//
// What the library has said of a call, where the function returns something else: MPICH's functions
// and some of Open MPI's return what the program's error handler leaves of the error, and that may
// be a success.
//
//     const Heard heard;
//     const int result = call(stock.Win_lock, ...);
//     if (heard.of(result) == MPI_SUCCESS)
//         ...                                  // the library has done it
//     return result;
#pragma once

#include "mpi/rank/inside.hpp"
#include "mpi/wrap/handles.hpp"

namespace cryo::mpi {

// The last error of which a handler of the program's has heard in this thread.
struct LastError {
    int depth; // of the function whose error it was (rank::depth)
    int code;
    int left; // by the handler
};
extern __thread LastError last_error
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

class Heard
{
  public:
    Heard() { last_error.code = MPI_SUCCESS; }

    // Of the call since: the error, whatever the handler has made of it.
    int of(int result) const { return since(result); }

    // The same where the last one is not at hand.
    static int since(int result)
    {
        return result == MPI_SUCCESS && has_any() ? last_error.code : result;
    }

    // A handler was asked, with this error: what the program's function returns.
    int returned(int error) const { return has_any() ? last_error.left : error; }

  private:
    // The handler may have called functions of MPI itself, and so may other callbacks.
    static bool has_any()
    {
        return __builtin_expect(last_error.code != MPI_SUCCESS, 0) &&
               last_error.depth == rank::depth;
    }
};

// Tells the error handler that the library would ask for a communicator of an error. Returns what
// the program's function returns then.
int tell_error(MPI_Comm comm, int error);

// The communicator or window has no error handler, though the library tells of this one. (It tells
// of MPI_ERRORS_ARE_FATAL also where the program has said so.)
bool has_no_handler(const Object *object, MPI_Errhandler real);
// The same of a communicator, without asking the library again and again.
bool has_own_handler(Object *comm);
// It has one, and is not MPI_COMM_WORLD.
inline bool has_special_handler(Object *comm)
{
    return abi::world_answers && comm != object_of(MPI_COMM_WORLD) && has_own_handler(comm);
}

// While it lives, the library tells nobody of a request's error: that is told when the program
// asks, or to another handler. (Open MPI's MPI_Request_get_status tells nobody anyway.)
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
