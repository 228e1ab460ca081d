// SPDX-License-Identifier: Apache-2.0
//
// Split collectives on files. What began in one library cannot be ended in another, so it is ended
// at once (the standard allows the begin call to be the whole operation), and the program's own
// end call returns the saved result.
#pragma once

#include "functions.gen.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/handles.hpp"

namespace cryo::mpi {

struct Split {
    bool begun = false; // and not ended by the program yet
    int error = MPI_SUCCESS;
    MPI_Status status = {};
};

// Stored with the file's object, for the object's lifetime. Null: no memory.
inline Split *split_of(MPI_File file)
{
    Object *object = object_of(file);
    if (object->kept[1] == nullptr) {
        object->kept_bytes[1] = sizeof(Split);
        object->kept[1] = capsule::keep(sizeof(Split));
        if (object->kept[1] != nullptr)
            new (object->kept[1]) Split;
    }
    return static_cast<Split *>(object->kept[1]);
}

template <class Buffer, class Begin>
int begin_split(MPI_File file, int (*end)(MPI_File, Buffer, MPI_Status *), Buffer buffer,
                const Begin &begin)
{
    Split *split = file == MPI_FILE_NULL ? nullptr : split_of(file);
    if (split == nullptr)
        return begin();
    if (split->begun) { // only one at a time
        capsule::call(stock.File_call_errhandler, real_of(file), MPI_ERR_OTHER);
        return MPI_ERR_OTHER;
    }
    const int result = begin();
    if (result != MPI_SUCCESS)
        return result;
    split->error = capsule::call(end, real_of(file), buffer, &split->status);
    split->begun = true;
    return result;
}

template <class Buffer>
int end_split(MPI_File file, int (*end)(MPI_File, Buffer, MPI_Status *), Buffer buffer,
              MPI_Status *status)
{
    Split *split = file == MPI_FILE_NULL ? nullptr : split_of(file);
    if (split == nullptr || !split->begun)
        return capsule::call(end, real_of(file), buffer, status);
    split->begun = false;
    if (status != MPI_STATUS_IGNORE)
        *status = split->status;
    return split->error;
}

} // namespace cryo::mpi
