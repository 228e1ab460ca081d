// SPDX-License-Identifier: Apache-2.0
// RULE for this file: it may run in a restored copy before the interrupted code resumes, and takes
// no lock of the C library and no memory of the program (docs/rank-engine.md).
#include "mpi/capsule/threads.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/capsule/refuse.hpp"

#include <pthread.h>

namespace cryo::capsule {

// The TLS model is repeated because the compiler drops the declaration's. Without it the code calls
// __tls_get_addr, which may call malloc on a thread's first access after a dlopen.
__thread Binding binding __attribute__((tls_model("initial-exec")));
uint64_t opening;
long way_back_offset;

namespace {

constexpr int most = 1024;

const cryo_guest *library;
void *first; // FS base that the capsule started with
Lock lock;
void *spare[most];
int spares;
pthread_key_t at_thread_end;
bool have_key;

void bind(void *fs)
{
    *reinterpret_cast<void **>(static_cast<char *>(fs) + way_back_offset) = current_fs();
    binding = {fs, opening};
}

// The key's value may belong to a capsule from before a restart.
void give_back(void * /*fs*/)
{
    if (!entered())
        return;
    Hold hold(lock);
    if (spares < most)
        spare[spares++] = binding.fs;
    binding = {};
}

// Created early, to get a low key number: the first time a thread sets a key beyond the 32nd,
// pthread_setspecific calls malloc.
[[gnu::constructor]] void make_key()
{
    have_key = pthread_key_create(&at_thread_end, give_back) == 0;
}

} // namespace

namespace threads {

void begin(const cryo_guest *guest, void *fs)
{
    static uint64_t openings;
    library = guest;
    way_back_offset = guest->way_back;
    spares = 0;
    opening = ++openings;
    first = fs;
    bind(fs);
    if (void *donor = call(guest->add_donor))
        spare[spares++] = donor;
}

void end()
{
    binding = {};
    opening = 0;
    library = nullptr;
    spares = 0;
}

void forget()
{
    lock.forget();
    opening = 0;
    library = nullptr;
    spares = 0;
}

} // namespace threads

AsFirst::AsFirst() : before_(binding), way_back_(way_back(first))
{
    bind(first);
}

AsFirst::~AsFirst()
{
    *reinterpret_cast<void **>(static_cast<char *>(first) + way_back_offset) = way_back_;
    binding = before_;
}

bool enter_slowly(Refusal &why)
{
    if (opening == 0)
        return refuse(why, "the MPI library is not loaded");
    Hold hold(lock);
    if (!have_key)
        return refuse(why, "no pthread key is left for the threads that call MPI");
    if (spares == 0)
        return refuse(why,
                      "too many threads call MPI: no thread could be made for one more (at most "
                      "%d, or the limit of processes)",
                      most);
    void *fs = spare[--spares];
    bind(fs);
    pthread_setspecific(at_thread_end, fs);
    if (spares == 0) {
        if (void *donor = call(library->add_donor))
            spare[spares++] = donor;
    }
    return true;
}

} // namespace cryo::capsule
