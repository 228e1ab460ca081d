// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/spin.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/inside.hpp"
#include "sys/raw.hpp"

namespace cryo::mpi::rank::spin {

namespace {

bool ends(int flag, int error, bool once = false)
{
    return once || flag != 0 || error != MPI_SUCCESS || must_attend;
}

// Of several threads waiting in the library itself, one polls and the others sleep. Here each one
// polls, and must not keep the processor from the thread whose message would end the wait.
class Polls
{
  public:
    void found_nothing()
    {
        if (several_threads && ++fruitless_ > few && running.load(std::memory_order_relaxed) > 1)
            sys::call(SYS_sched_yield);
    }

  private:
    static constexpr unsigned few = 20;
    unsigned fruitless_ = 0;
};

// Calls poll() until it returns true.
template <class Poll>
void until(Poll poll)
{
    for (Polls polls; !poll();)
        polls.found_nothing();
}

} // namespace

void wait_one(One *wait)
{
    until([wait] {
        wait->error = stock.Test(wait->request, &wait->flag, &wait->status);
        return ends(wait->flag, wait->error);
    });
    if (wait->error != MPI_SUCCESS)
        wait->flag = 1;
}

void receive(Receive *r)
{
    r->wait.flag = 0;
    r->wait.error =
        stock.Irecv(r->buffer, r->count, r->type, r->source, r->tag, r->comm, &r->request);
    r->wait.request = &r->request;
    if (r->request != nullptr && r->wait.error == MPI_SUCCESS)
        wait_one(&r->wait);
}

void wait_all(Many *wait)
{
    until([wait] {
        wait->error = stock.Testall(wait->count, wait->requests, &wait->flag, wait->statuses);
        return ends(wait->flag, wait->error, wait->once);
    });
}

void wait_any(Many *wait)
{
    until([wait] {
        wait->error =
            stock.Testany(wait->count, wait->requests, &wait->index, &wait->flag, wait->statuses);
        return ends(wait->flag, wait->error, wait->once);
    });
}

void wait_some(Many *wait)
{
    until([wait] {
        wait->error =
            stock.Testsome(wait->count, wait->requests, &wait->done, wait->indices, wait->statuses);
        wait->flag = wait->done != 0;
        return ends(wait->flag, wait->error, wait->once);
    });
}

void probe(Probe *p)
{
    until([p] {
        p->error = stock.Iprobe(p->source, p->tag, p->comm, &p->flag, &p->status);
        return ends(p->flag, p->error);
    });
}

} // namespace cryo::mpi::rank::spin
