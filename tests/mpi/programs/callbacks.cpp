// SPDX-License-Identifier: Apache-2.0
// Functions of the program that the C++ bindings of MPI-2 call: operations, two of them with
// different functions, one of which does not commute, and error handlers of communicators, windows
// and files. Runs as many rounds as the first argument says.
#include "check.h"

#include <string>
#include <unistd.h>

namespace {

unsigned long long sum = 14695981039346656037ULL;
int told[3]; // errors of communicators, windows, files
int copied;
int removed;

// The left argument comes first: pairs are functions x -> a x + b, and this composes
// them.
void chain(const void *in, void *inout, int count, const MPI::Datatype &type)
{
    CHECK(type == MPI::TWOINT);
    const auto *left = static_cast<const unsigned *>(in);
    auto *right = static_cast<unsigned *>(inout);
    for (int i = 0; i < 2 * count; i += 2) {
        right[i + 1] += right[i] * left[i + 1];
        right[i] *= left[i];
    }
}

void smaller(const void *in, void *inout, int count, const MPI::Datatype &type)
{
    CHECK(type == MPI::INT);
    for (int i = 0; i < count; i++) {
        const int a = static_cast<const int *>(in)[i];
        int &b = static_cast<int *>(inout)[i];
        b = a < b ? a : b;
    }
}

template <class Object, int kind>
void on_error(Object & /*object*/, int *code, ...)
{
    const int error = MPI::Get_error_class(*code);
    CHECK(kind == 0 ? error == MPI::ERR_RANK : error == MPI::ERR_OTHER);
    told[kind]++;
}

int copy(const MPI::Comm &comm, int, void *extra, void *value, void *made, bool &flag)
{
    CHECK(extra == told);
#ifdef OPEN_MPI // MPICH reports no other kind than this one
    CHECK(dynamic_cast<const MPI::Cartcomm *>(&comm) != nullptr);
#endif
    CHECK(comm.Get_topology() == MPI::CART);
    *static_cast<void **>(made) = static_cast<char *>(value) + 1;
    copied++;
    flag = true;
    return MPI_SUCCESS;
}

int remove(MPI::Comm &comm, int, void *value, void *extra)
{
    CHECK(extra == told && (value == told || value == reinterpret_cast<char *>(told) + 1));
    CHECK(comm.Get_topology() == MPI::CART);
    removed++;
    return MPI_SUCCESS;
}

void round(int number, int rank, int size, const MPI::Intracomm &comm, const MPI::Op &ordered,
           const MPI::Op &least)
{
    unsigned pairs[8];
    unsigned result[8];
    for (unsigned i = 0; i < 8; i++)
        pairs[i] = unsigned(number) * 7 + unsigned(rank) * 3 + i;
    comm.Allreduce(pairs, result, 4, MPI::TWOINT, ordered);
    sum = mix(sum, result, sizeof result);
    comm.Scan(pairs, result, 4, MPI::TWOINT, ordered);
    sum = mix(sum, result, sizeof result);
    const int mine = (rank + number) % size + number;
    int found = -1;
    comm.Allreduce(&mine, &found, 1, MPI::INT, least);
    CHECK(found == number);
    comm.Send(&mine, 1, MPI::INT, size + 3, 0);
    CHECK(told[0] == number + 1);
}

} // namespace

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 20;
    MPI::Init(argc, argv);
    const int rank = MPI::COMM_WORLD.Get_rank();
    const int size = MPI::COMM_WORLD.Get_size();
    MPI::Intracomm comm = MPI::COMM_WORLD.Dup();
    MPI::Op ordered;
    MPI::Op least;
    ordered.Init(chain, false);
    least.Init(smaller, true);
    MPI::Errhandler handler = MPI::Comm::Create_errhandler(on_error<MPI::Comm, 0>);
    comm.Set_errhandler(handler);
    handler.Free();
    int cell = 0;
    MPI::Win win = MPI::Win::Create(&cell, sizeof cell, 1, MPI::INFO_NULL, comm);
    handler = MPI::Win::Create_errhandler(on_error<MPI::Win, 1>);
    win.Set_errhandler(handler);
    handler.Free();
    const std::string name = std::string(getenv("CRYO_SCRATCH")) + "/" + std::to_string(rank);
    MPI::File file = MPI::File::Open(MPI::COMM_SELF, name.c_str(),
                                     MPI::MODE_CREATE | MPI::MODE_RDWR, MPI::INFO_NULL);
    handler = MPI::File::Create_errhandler(on_error<MPI::File, 2>);
    file.Set_errhandler(handler);
    handler.Free();
    const bool periods[] = {true};
    MPI::Cartcomm cart = comm.Create_cart(1, &size, periods, false);
    int keyval = MPI::Comm::Create_keyval(copy, remove, told);
    cart.Set_attr(keyval, told);
    for (int i = 0; i < rounds; i++) {
        if (i % 8 == 0) {
            MPI::Cartcomm other = cart.Dup();
            CHECK(copied == i / 8 + 1 && removed == i / 8);
            other.Free();
            CHECK(removed == copied);
        }
        round(i, rank, size, comm, ordered, least);
        win.Call_errhandler(MPI::ERR_OTHER);
        file.Call_errhandler(MPI::ERR_OTHER);
        CHECK(told[1] == i + 1 && told[2] == i + 1);
        usleep(300);
    }
    wait_to_end();
    cart.Free();
    CHECK(removed == copied + 1);
    MPI::Comm::Free_keyval(keyval);
    file.Close();
    win.Free();
    ordered.Free();
    least.Free();
    comm.Free();
    sum = mix(sum, told, sizeof told);
    printf("%d: %016llx\n", rank, sum);
    MPI::Finalize();
    return 0;
}
