// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/method.hpp"

#include "image/format.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

constexpr uint64_t page_size = image::kPageSize;

// Measured, in nanoseconds; only the comparison of the sums matters.

uint64_t time_to_fork(const Held &held)
{
    constexpr uint64_t process = 1'300'000; // including all setup
    constexpr uint64_t entry = 60;          // of a page table
    constexpr uint64_t pages_of_huge = 512;
    const uint64_t small = held.pages - std::min(held.pages, held.huge);
    return process + (small + held.huge / pages_of_huge) * entry;
}

uint64_t time_to_stage(const std::vector<Run> &runs)
{
    constexpr uint64_t whole =
        500'000;                    // to scan all page tables again, and to get the agent started
    constexpr uint64_t run = 1200;  // the kernel's overhead for it
    constexpr uint64_t page = 2000; // that is not in the cache: between 1 and 4 µs
    return whole + runs.size() * run + size_of(runs) / page_size * page;
}

// Data beyond the writer's buffers must be on its way to the disk before the last page is read.
uint64_t time_to_read(const Held &held)
{
    constexpr uint64_t writer = 5'000'000; // starting an image, and everything besides pages
    constexpr uint64_t run = 50'000;       // request and wait
    constexpr uint64_t page = 1300;        // through a pipe, with its checksum
    constexpr uint64_t buffers = 16 << 20;
    const uint64_t bytes = held.changed ? size_of(*held.changed) : held.pages * page_size;
    uint64_t waiting = 0;
    if (held.writes_per_s != 0 && bytes > buffers)
        waiting = static_cast<uint64_t>(static_cast<double>(bytes - buffers) * 1e9 /
                                        static_cast<double>(held.writes_per_s));
    const uint64_t runs = held.changed ? held.changed->size() : 1;
    return writer + runs * run + std::max(bytes / page_size * page, waiting);
}

std::string milliseconds(uint64_t ns)
{
    return ns == Costs::cannot ? "cannot be"
                               : fmt::format("{:.1f} ms", static_cast<double>(ns) / 1e6);
}

} // namespace

Costs estimate(const Held &held)
{
    Costs costs;
    costs.fork = time_to_fork(held);
    costs.stop = time_to_read(held);
    if (held.changed && size_of(*held.changed) <= held.room)
        costs.staged = time_to_stage(*held.changed);
    return costs;
}

Method Costs::best() const
{
    if (staged <= fork && staged <= stop)
        return Method::staged;
    return stop < fork ? Method::stop : Method::fork;
}

std::string Costs::text() const
{
    return fmt::format("estimated: by a copy {}, staged {}, read in the stop {}",
                       milliseconds(fork), milliseconds(staged), milliseconds(stop));
}

uint64_t private_pages(const Proc &proc)
{
    const Result<std::string> text = proc.read("statm");
    std::string_view rest = text ? *text : std::string_view();
    take_number(rest); // total program size
    const uint64_t resident = take_number(rest), shared = take_number(rest);
    return resident - std::min(resident, shared);
}

std::string_view name_of(Method method)
{
    switch (method) {
    case Method::fork:
        return "fork";
    case Method::staged:
        return "staged";
    default:
        return "stop";
    }
}

} // namespace cryo::capture
