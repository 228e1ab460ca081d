// SPDX-License-Identifier: Apache-2.0
// Attributes by the C++ bindings of MPI-2, whose callbacks the C++ library calls.
#include "check.h"

namespace {

int copied;
int deleted;
int state = 7;

// The copy's value points to the next number.
int copy(const MPI::Comm &, int, void *extra, void *value, void *made, bool &flag)
{
    CHECK(extra == &state);
    copied++;
    *static_cast<int **>(made) = static_cast<int *>(value) + 1;
    flag = true;
    return MPI_SUCCESS;
}

int remove(MPI::Comm &, int, void *value, void *extra)
{
    CHECK(extra == &state);
    deleted += *static_cast<int *>(value);
    return MPI_SUCCESS;
}

#ifdef OPEN_MPI
using Value = const void *;
#else
using Value = void *;
#endif

int copy_type(const MPI::Datatype &, int, void *, Value value, void *made, bool &flag)
{
    copied++;
    *static_cast<Value *>(made) = value;
    flag = true;
    return MPI_SUCCESS;
}

int remove_type(MPI::Datatype &, int, void *value, void *)
{
    deleted += *static_cast<int *>(value);
    return MPI_SUCCESS;
}

template <class Object>
int number_at(const Object &object, int keyval)
{
    void *value = nullptr;
    return object.Get_attr(keyval, &value) ? *static_cast<int *>(value) : -1;
}

} // namespace

int main(int argc, char **argv)
{
    int numbers[] = {10, 200, 3000};
    MPI::Init(argc, argv);
    const int rank = MPI::COMM_WORLD.Get_rank();

    int keyval = MPI::Comm::Create_keyval(copy, remove, &state);
    MPI::Intracomm first = MPI::COMM_WORLD.Dup();
    first.Set_attr(keyval, numbers);
    CHECK(number_at(first, keyval) == 10);
    MPI::Intracomm second = first.Dup();
    CHECK(copied == 1 && number_at(second, keyval) == 200);
    MPI::Intracomm third = second.Dup();
    CHECK(copied == 2 && number_at(third, keyval) == 3000);
    second.Free();
    CHECK(deleted == 200);
    third.Delete_attr(keyval);
    CHECK(deleted == 3200 && number_at(third, keyval) == -1);
    first.Set_attr(keyval, numbers + 1);
    CHECK(deleted == 3210 && number_at(first, keyval) == 200);
    MPI::Comm::Free_keyval(keyval);
    third.Free();
    first.Free();
    CHECK(deleted == 3410);

    copied = deleted = 0;
    keyval = MPI::Datatype::Create_keyval(copy_type, remove_type, &state);
    MPI::Datatype type = MPI::INT.Create_contiguous(2);
    type.Set_attr(keyval, numbers);
    MPI::Datatype again = type.Dup();
    CHECK(copied == 1 && number_at(again, keyval) == 10);
    again.Free();
    type.Free();
    CHECK(deleted == 20);
    MPI::Datatype::Free_keyval(keyval);

    printf("%d: %d\n", rank, copied + deleted);
    MPI::Finalize();
    return 0;
}
