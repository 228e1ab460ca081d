// SPDX-License-Identifier: Apache-2.0
// C++: mutex with condition_variable, shared_mutex, latch, semaphore, atomic wait, future.
#include "probe.h"

#include <atomic>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <semaphore>
#include <shared_mutex>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        std::mutex mutex;
        std::condition_variable condition;
        std::shared_mutex shared;
        std::latch latch(2);
        std::counting_semaphore<5> semaphore(0);
        std::atomic<int> word{0};
        bool may_go = false;

        shared.lock_shared();
        auto by_condition = std::async(std::launch::async, [&] {
            std::unique_lock lock(mutex);
            condition.wait(lock, [&] { return may_go; });
            return 1;
        });
        auto by_writer = std::async(std::launch::async, [&] {
            const std::unique_lock lock(shared);
            return 2;
        });
        auto by_latch = std::async(std::launch::async, [&] {
            latch.arrive_and_wait();
            return 3;
        });
        auto by_semaphore = std::async(std::launch::async, [&] {
            semaphore.acquire();
            return 4;
        });
        auto by_atomic = std::async(std::launch::async, [&] {
            word.wait(0);
            return 5;
        });
        std::promise<int> promise;
        auto by_promise = promise.get_future();
        probe_ready();

        PROBE_SABOTAGE("semaphore", semaphore.release());
        PROBE_SABOTAGE("semaphore", by_semaphore.wait());
        std::future<int> *futures[] = {&by_condition, &by_writer, &by_latch,
                                       &by_semaphore, &by_atomic, &by_promise};
        const char *names[] = {"condition", "writer", "latch", "semaphore", "atomic", "promise"};
        for (int i = 0; i < 6; i++) {
            probe_true(names[i], futures[i]->wait_for(std::chrono::seconds(0)) ==
                                     std::future_status::timeout);
        }
        {
            const std::lock_guard lock(mutex);
            may_go = true;
        }
        condition.notify_one();
        shared.unlock_shared();
        latch.count_down();
        semaphore.release();
        word = 1;
        word.notify_all();
        promise.set_value(6);
        for (int i = 0; i < 6; i++) {
            probe_equal(names[i], i + 1, futures[i]->get());
        }
    } while (probe_more());
    return probe_pass();
}
