// SPDX-License-Identifier: Apache-2.0
// Heat in a plate, computed by two threads: a small program to save and restore. Every line it
// prints carries a digest of the whole plate, so that two runs can be compared to the last bit.
//
//     heat [STEPS [STEPS-BETWEEN-LINES]]
#include <barrier>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int side = 512;
constexpr int threads = 2;

using Plate = std::vector<double>;

void step(const Plate &from, Plate &to, int first, int last)
{
    for (int y = first; y < last; y++) {
        for (int x = 1; x < side - 1; x++) {
            const int i = y * side + x;
            to[i] = from[i] + 0.24 * (from[i - 1] + from[i + 1] + from[i - side] + from[i + side] -
                                      4 * from[i]);
        }
    }
}

uint64_t digest(const Plate &plate)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (double t : plate)
        hash = (hash ^ std::bit_cast<uint64_t>(t)) * 0x100000001b3;
    return hash;
}

} // namespace

int main(int argc, char **argv)
{
    const long steps = argc > 1 ? strtol(argv[1], nullptr, 10) : 4000;
    const long default_every = steps / 20 > 0 ? steps / 20 : 1;
    const long every = argc > 2 ? strtol(argv[2], nullptr, 10) : default_every;
    Plate plates[2] = {Plate(side * side), Plate(side * side)};
    for (int x = 0; x < side; x++)
        plates[0][x] = plates[1][x] = 100.0 * x / side;

    long done = 0;
    std::barrier all(threads, [&]() noexcept {
        done++;
        if (done % every == 0) {
            printf("step %6ld  %016llx\n", done,
                   static_cast<unsigned long long>(digest(plates[done % 2])));
            fflush(stdout);
        }
    });
    const auto work = [&](int rows_from, int rows_to) {
        for (long i = 0; i < steps; i++) {
            step(plates[i % 2], plates[(i + 1) % 2], rows_from, rows_to);
            all.arrive_and_wait();
        }
    };
    std::thread lower(work, side / 2, side - 1);
    work(1, side / 2);
    lower.join();
    printf("result        %016llx\n", static_cast<unsigned long long>(digest(plates[steps % 2])));
    return 0;
}
