// SPDX-License-Identifier: Apache-2.0
// thread_local objects keep their values, and their destructors run when their threads end.
#include "probe.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> destroyed{0};
std::atomic<int> started{0};
int check = 0;

struct Counted {
    std::string text = "initial";
    ~Counted()
    {
        if (text != "initial") {
            destroyed++;
        }
    }
};

thread_local Counted object;
thread_local int number = 5;

void worker(int i)
{
    object.text = "thread " + std::to_string(i);
    number = i;
    started++;
    probe_await("check", &check);
    PROBE_SABOTAGE("value", number += i == 2);
    probe_equal("value of a thread_local int", i, number);
    probe_equal_text("thread_local object", ("thread " + std::to_string(i)).c_str(),
                     object.text.c_str());
}

} // namespace

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    constexpr int count = 4;
    do {
        started = destroyed = 0;
        check = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < count; i++) {
            threads.emplace_back(worker, i);
        }
        while (started != count) {
            std::this_thread::yield();
        }
        probe_ready();
        __atomic_store_n(&check, 1, __ATOMIC_RELEASE);
        for (auto &thread : threads) {
            thread.join();
        }
        PROBE_SABOTAGE("destructors", destroyed--);
        probe_equal("destructors run", count, destroyed);
        std::thread([] { probe_equal("thread_local of a new thread", 5, number); }).join();
    } while (probe_more());
    return probe_pass();
}
