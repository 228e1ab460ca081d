// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/spin.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/inside.hpp"

namespace cryo::mpi::rank::spin {

namespace {

bool ends(int flag, int error, bool once = false)
{
    return once || flag != 0 || error != MPI_SUCCESS || attention;
}

} // namespace

void wait_one(One *wait)
{
    do {
        wait->error = stock.Test(wait->request, &wait->flag, &wait->status);
    } while (!ends(wait->flag, wait->error));
    if (wait->error != MPI_SUCCESS)
        wait->flag = 1;
}

void receive(Receive *r)
{
    r->wait.flag = 0;
    r->wait.error =
        stock.Irecv(r->buffer, r->count, r->type, r->source, r->tag, r->comm, &r->request);
    r->wait.request = &r->request;
    if (r->wait.error == MPI_SUCCESS)
        wait_one(&r->wait);
}

void wait_all(Many *wait)
{
    do {
        wait->error = stock.Testall(wait->count, wait->requests, &wait->flag, wait->statuses);
    } while (!ends(wait->flag, wait->error, wait->once));
}

void wait_any(Many *wait)
{
    do {
        wait->error =
            stock.Testany(wait->count, wait->requests, &wait->index, &wait->flag, wait->statuses);
    } while (!ends(wait->flag, wait->error, wait->once));
}

void wait_some(Many *wait)
{
    do {
        wait->error =
            stock.Testsome(wait->count, wait->requests, &wait->done, wait->indices, wait->statuses);
        wait->flag = wait->done != 0;
    } while (!ends(wait->flag, wait->error, wait->once));
}

void probe(Probe *p)
{
    do {
        p->error = stock.Iprobe(p->source, p->tag, p->comm, &p->flag, &p->status);
    } while (!ends(p->flag, p->error));
}

} // namespace cryo::mpi::rank::spin
