// SPDX-License-Identifier: Apache-2.0
// Libcr's own thread, in ordinary surroundings: it runs the THREAD-context callbacks. It is created
// when the first of them is registered, and again in a forked child. Also what a thread of the
// program leaves behind when it ends.
#include "agent/callbacks.hpp"
#include "agent/client_calls.hpp"

#include <cerrno>
#include <csignal>
#include <pthread.h>

namespace cryo::agent {

namespace {

constinit std::atomic<uint32_t> thread_exists;
pthread_key_t key;
pthread_once_t key_made = PTHREAD_ONCE_INIT;

// A thread ends. The program may want its client to outlive destructors of its own.
void end_client(void *of_thread)
{
    auto &client = *static_cast<Client *>(of_thread);
    if (client.persist > 0) {
        pthread_setspecific(key, &client);
        return;
    }
    abandon_callbacks(client);
    drop_critical_sections(client);
    drop_client(client);
}

void make_key()
{
    pthread_key_create(&key, end_client);
}

long start_thread();

// A callback may end its thread; the next checkpoint wants one again.
void *callback_thread(void *)
{
    if (client_init() < 0)
        return nullptr;
    Client &client = *self_client();
    client.thread_context = true;
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

long start_thread()
{
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
    return error == 0 ? 0 : -ENOMEM;
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
    uint32_t none = 0;
    if (!thread_exists.compare_exchange_strong(none, 1))
        return 0;
    const long started = start_thread();
    if (started != 0)
        thread_exists.store(0);
    return started;
}

void callback_thread_after_fork()
{
    const Client *client = self_client();
    if (thread_exists.load() != 0 && (client == nullptr || !client->thread_context))
        start_thread();
    else
        thread_exists.store(0);
}

} // namespace cryo::agent
