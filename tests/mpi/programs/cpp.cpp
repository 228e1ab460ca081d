// SPDX-License-Identifier: Apache-2.0
// C++ over the C functions: exceptions and thread-local objects while the library calls back.
#include "check.h"

#include <complex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

thread_local std::vector<std::string> called;

void multiply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    called.push_back(*type == MPI_C_DOUBLE_COMPLEX ? "multiply" : "wrong type");
    auto *a = static_cast<std::complex<double> *>(in);
    auto *b = static_cast<std::complex<double> *>(inout);
    for (int i = 0; i < *count; i++) {
        try {
            b[i] *= a[i];
            throw std::runtime_error("caught where it was thrown");
        } catch (const std::runtime_error &error) {
            if (std::string(error.what()).empty())
                abort();
        }
    }
}

void on_error(MPI_Comm *comm, int *code, ...)
{
    int kind = 0;
    MPI_Error_class(*code, &kind);
    called.push_back(*comm == MPI_COMM_WORLD && kind == MPI_ERR_RANK ? "handler" : "wrong error");
}

} // namespace

int main(int argc, char **argv)
{
    int provided, rank, size;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));

    MPI_Op product;
    OK(MPI_Op_create(multiply, 1, &product));
    std::vector<std::complex<double>> values(16, {1.0, rank * 0.5}), result(16);
    OK(MPI_Allreduce(values.data(), result.data(), 16, MPI_C_DOUBLE_COMPLEX, product,
                     MPI_COMM_WORLD));
    OK(MPI_Op_free(&product));
    CHECK(product == MPI_OP_NULL);
    for (const std::string &what : called) // the library chooses which ranks compute
        CHECK(what == "multiply");
    called.clear();

    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    OK(MPI_Errhandler_free(&handler));
    CHECK(MPI_Send(&rank, 1, MPI_INT, size + 7, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK(called.size() == 1 && called[0] == "handler");

    const auto sum = std::accumulate(result.begin(), result.end(), std::complex<double>());
    printf("%d: %.6f %.6f\n", rank, sum.real(), sum.imag());
    OK(MPI_Finalize());
    return 0;
}
