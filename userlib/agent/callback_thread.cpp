// SPDX-License-Identifier: Apache-2.0
// Libcr's own thread, outside signal handlers: it runs the THREAD-context callbacks. It is created
// when the first of them is registered, and again after a callback has ended it. Also cleans up
// after a thread of the program that ends.
#include "agent/callbacks.hpp"
#include "agent/client_calls.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <pthread.h>
#include <sys/prctl.h>

namespace cryo::agent {

namespace {

enum : uint32_t { no_thread, begins, is_there };
constinit std::atomic<uint32_t> thread_state; // futex
pthread_key_t key;
pthread_once_t key_made = PTHREAD_ONCE_INIT;

void set_thread_state(uint32_t to)
{
    thread_state.store(to);
    wake_all(thread_state);
}

void start_thread();

// Runs as a thread ends. The program may want its client to outlive its own destructors.
void end_client(void *of_thread)
{
    auto &client = *static_cast<Client *>(of_thread);
    if (client.persist > 0) {
        pthread_setspecific(key, &client);
        return;
    }
    const bool runs_callbacks = client.thread_context;
    abandon_callbacks(client);
    drop_critical_sections(client);
    drop_client(client);
    if (runs_callbacks)
        start_thread(); // the next checkpoint needs one again
}

void make_key()
{
    pthread_key_create(&key, end_client);
}

void *callback_thread(void *)
{
    if (client_init() < 0) {
        set_thread_state(no_thread);
        return nullptr;
    }
    Client &client = *self_client();
    client.thread_context = true;
    sys::call(SYS_prctl, PR_SET_NAME, callback_thread_name, 0, 0, 0);
    set_thread_state(is_there);
    for (;;) {
        const uint32_t stage = round.stage.load();
        if (stage != static_cast<uint32_t>(Stage::threads))
            wait_while(round.stage, stage);
        else
            run_thread_callbacks(client);
        if (self_client() == nullptr || !client.thread_context)
            return nullptr; // a child that was forked in a callback
    }
}

void start_thread()
{
    thread_state.store(begins);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, state.signal);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, callback_thread, nullptr);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error != 0)
        set_thread_state(no_thread);
}

} // namespace

int client_init()
{
    pthread_once(&key_made, make_key);
    prepare_sections();
    Client *client = take_client();
    if (client == nullptr)
        return -ENOMEM;
    if (pthread_setspecific(key, client) != 0) {
        drop_client(*client);
        return -ENOMEM;
    }
    return client->id;
}

long need_callback_thread()
{
    uint32_t none = no_thread;
    if (thread_state.compare_exchange_strong(none, begins))
        start_thread();
    wait_while(thread_state, begins);
    return thread_state.load() == is_there ? 0 : -ENOMEM;
}

bool has_callback_thread()
{
    return thread_state.load() != no_thread;
}

// The child has no such thread; one that was forked in a callback ends when that returns.
void callback_thread_after_fork()
{
    thread_state.store(no_thread);
    if (first_client() != nullptr)
        pthread_setspecific(key, nullptr);
}

} // namespace cryo::agent
