// SPDX-License-Identifier: Apache-2.0
// A rank that opens the capsule, runs MPI in it and discards it, several times. After each round
// the process must be as before: descriptors, mappings, threads, signal dispositions, break, heap.
#include "mpi/capsule/capsule.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <unistd.h>
#include <vector>

using namespace cryo;
using cryo::capsule::call;

namespace {

using Handle = void *;

[[noreturn]] void fail(const std::string &text)
{
    std::cerr << "not as before: " << text << "\n";
    _exit(3);
}

std::set<std::string> listing(const char *directory)
{
    std::set<std::string> found;
    DIR *stream = opendir(directory);
    while (const dirent *entry = readdir(stream))
        found.insert(entry->d_name);
    found.erase(std::to_string(dirfd(stream)));
    closedir(stream);
    return found;
}

// Leaves out what Cryo keeps for itself, and the moving ends of heap and stack.
std::set<std::string> mappings()
{
    std::set<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("[heap]") == std::string::npos && line.find("[stack]") == std::string::npos &&
            line.rfind("29f", 0) != 0)
            found.insert(line);
    }
    return found;
}

std::string signals()
{
    std::ifstream status("/proc/self/status");
    std::string all;
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("SigBlk", 0) == 0 || line.rfind("SigIgn", 0) == 0 ||
            line.rfind("SigCgt", 0) == 0)
            all += line + "\n";
    }
    return all;
}

struct Process {
    std::set<std::string> descriptors = listing("/proc/self/fd");
    std::set<std::string> threads = listing("/proc/self/task");
    std::set<std::string> maps = mappings();
    std::string dispositions = signals();
    void *heap_end = sbrk(0);
    int *tid_address = nullptr;

    Process() { prctl(PR_GET_TID_ADDRESS, &tid_address); }
};

std::string difference(const std::set<std::string> &a, const std::set<std::string> &b)
{
    std::ostringstream text;
    for (const std::string &line : a) {
        if (b.count(line) == 0)
            text << "- " << line << "\n";
    }
    for (const std::string &line : b) {
        if (a.count(line) == 0)
            text << "+ " << line << "\n";
    }
    return text.str();
}

void compare(const Process &before, const Process &after)
{
    if (before.descriptors != after.descriptors)
        fail("descriptors\n" + difference(before.descriptors, after.descriptors));
    if (before.threads != after.threads)
        fail("threads\n" + difference(before.threads, after.threads));
    if (before.maps != after.maps)
        fail("mappings\n" + difference(before.maps, after.maps));
    if (before.dispositions != after.dispositions)
        fail("signals\n" + before.dispositions + after.dispositions);
    if (before.heap_end != after.heap_end || before.tid_address != after.tid_address)
        fail("break or clear-child-tid address");
}

// While the capsule is open: none of it outside its range, no low descriptors, libc unaffected.
void look_from_outside(const Process &before)
{
    const Process now;
    std::set<std::string> low;
    for (const std::string &fd : now.descriptors) {
        if (!capsule::owns_descriptor(atoi(fd.c_str())))
            low.insert(fd);
    }
    if (low != before.descriptors)
        fail("descriptors while open\n" + difference(before.descriptors, low));
    for (const std::string &line : now.maps) {
        const auto start = std::strtoull(line.c_str(), nullptr, 16);
        if (before.maps.count(line) == 0 && !capsule::owns(reinterpret_cast<void *>(start)))
            fail("a mapping of the capsule outside its range\n" + line);
    }
    if (now.dispositions != before.dispositions || now.heap_end != before.heap_end ||
        now.tid_address != before.tid_address)
        fail("signals, break or clear-child-tid address while open\n" + before.dispositions +
             now.dispositions);
}

// System V segments, some of them of huge pages: those can only be attached at a huge-page
// boundary, in whole huge pages.
void attach_segments()
{
    auto get = capsule::function<int (*)(key_t, size_t, int)>("shmget");
    auto attach = capsule::function<void *(*)(int, const void *, int)>("shmat");
    auto detach = capsule::function<int (*)(const void *)>("shmdt");
    auto control = capsule::function<int (*)(int, int, void *)>("shmctl");
    constexpr size_t huge_page = size_t{2} << 20;
    for (const int huge : {0, SHM_HUGETLB}) {
        const int segment = call(get, IPC_PRIVATE, 3 * size_t{4096}, IPC_CREAT | 0600 | huge);
        if (segment < 0 && huge != 0)
            continue; // none are reserved here, or not for this user
        void *place = call(attach, segment, nullptr, 0);
        call(control, segment, IPC_RMID, nullptr);
        if (!capsule::owns(place) || reinterpret_cast<uintptr_t>(place) % huge_page != 0)
            fail("a segment is not where one of huge pages could be");
        memset(place, 1, 3 * size_t{4096});
        if (call(detach, place) != 0)
            fail("detaching a segment");
    }
}

void run_once(const Process &before)
{
    capsule::Refusal why;
    if (!capsule::open({.library = "libmpi.so.40", .environment = environ}, why))
        fail(why.text);
    auto init = capsule::function<int (*)(int *, char ***)>("PMPI_Init");
    auto finalize = capsule::function<int (*)()>("PMPI_Finalize");
    auto reduce = capsule::function<int (*)(const void *, void *, int, Handle, Handle, Handle)>(
        "PMPI_Allreduce");
    auto size_of = capsule::function<int (*)(Handle, int *)>("PMPI_Comm_size");
    Handle world = capsule::symbol("ompi_mpi_comm_world");
    int size = 0;
    int sum = 0;
    constexpr int one = 1;
    if (call(init, nullptr, nullptr) != 0 || call(size_of, world, &size) != 0 ||
        call(reduce, &one, &sum, 1, capsule::symbol("ompi_mpi_int"),
             capsule::symbol("ompi_mpi_op_sum"), world) != 0 ||
        sum != size)
        fail("MPI in the capsule does not work");
    look_from_outside(before);
    attach_segments();
    if (call(finalize) != 0)
        fail("MPI_Finalize");
    if (!capsule::discard(why))
        fail(why.text);
}

} // namespace

int main(int /*argc*/, char **argv)
{
    signal(SIGUSR1, [](int) {});
    capsule::keep(1); // from now on everything is there that Cryo keeps for itself
    const Process warm_up;
    const Process before;
    for (int round = 0; round < atoi(argv[1]); round++) {
        run_once(before);
        const Process after;
        compare(before, after);
    }
    std::cout << "opened and discarded, nothing left\n";
    return 0;
}
