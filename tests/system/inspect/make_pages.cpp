// SPDX-License-Identifier: Apache-2.0
//
// make_pages DIRECTORY: what `cr_inspect --html` must stand.
//
//   hostile     an image all of whose texts try to become elements, attributes and scripts
//   crowd       60,000 mappings, 10,000 descriptors, 3,000 threads
//   many        an archive of 30 processes
//   chain/      an image, and three deltas, each of the one before
//   back/       snapshots 2 to 5 of a job that was brought back, the earlier ones removed
//   job/        snapshots of an MPI job of 3 ranks on 2 nodes, one of whose images is missing
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>

#include "coord/snapshot_text.hpp"
#include "making.hpp"

using namespace cryo;
using namespace cryo::image;

namespace {

constexpr uint32_t kMemory = 1;
constexpr uint64_t kProgram = 0x555555554000 / kPageSize;
constexpr uint64_t kHeap = 0x555555560000 / kPageSize;
constexpr uint64_t kLibraries = 0x7ffff7a00000 / kPageSize;
constexpr uint64_t kStack = 0x7ffffffde000 / kPageSize;
constexpr uint32_t kRead = PROT_READ;
constexpr uint32_t kWrite = PROT_READ | PROT_WRITE;
constexpr uint32_t kExecute = PROT_READ | PROT_EXEC;

void add_region(ImageWriter &w, uint64_t first, uint64_t count, Region r)
{
    r.start = first * kPageSize;
    r.end = (first + count) * kPageSize;
    r.object = kMemory;
    r.object_page = first;
    check(w.add(r));
}

void add_process(ImageWriter &w, uint32_t pid, std::string_view comm)
{
    check(w.add(ImageInfo{.tool = "0.1.0",
                          .host = "node17",
                          .user = "alice",
                          .request = "cr_checkpoint --tree",
                          .backend = "user",
                          .snapshot = "fork",
                          .stopped_ns = 14'000'000,
                          .total_ns = 1'200'000'000}));
    check(w.add(Process{.pid = pid, .ppid = 1, .comm = comm, .exe = "/usr/bin/melt"}));
    check(w.add(Memory{.object = kMemory}));
    check(w.add(Args{.data = as_bytes(std::string_view("melt\0-in\0melt.in\0", 17))}));
    check(w.add(Environ{.data = as_bytes(std::string_view("PASSWORD=tiger\0", 15))}));
}

// A process as most are: program, heap, libraries, stack.
void add_ordinary(ImageWriter &w, uint32_t pid, std::string_view comm, uint8_t seed)
{
    add_process(w, pid, comm);
    check(w.add(Thread{.tid = pid, .name = comm, .ip = 0x555555555100, .sp = 0x7ffffffde800}));
    check(w.add(Thread{.tid = pid + 1, .name = "worker", .ip = 0x7ffff7a01000, .syscall = 202}));
    check(w.add(File{.id = 1, .path = "/usr/bin/melt", .size = 49152}));
    check(w.add(File{.id = 2, .path = "/lib/x86_64-linux-gnu/libc.so.6", .size = 2 << 20}));
    check(w.add(File{.id = 3, .path = "/data/melt.log", .size = 770}));
    check(w.add(OpenFile{.id = 1, .file = 3, .flags = O_WRONLY | O_APPEND, .position = 770}));
    for (uint32_t fd = 0; fd < 3; fd++)
        check(w.add(Descriptor{.fd = fd, .open_file = 1}));
    add_region(w, kProgram, 2, {.prot = kRead, .kind = RegionKind::private_file, .file = 1});
    add_region(w, kProgram + 2, 6, {.prot = kExecute, .kind = RegionKind::private_file, .file = 1});
    add_region(w, kHeap, 96, {.prot = kWrite, .kind = RegionKind::heap, .present = 71});
    add_region(w, kLibraries, 40, {.prot = kRead, .kind = RegionKind::private_file, .file = 2});
    add_region(w, kLibraries + 40, 360,
               {.prot = kExecute, .kind = RegionKind::private_file, .file = 2});
    add_region(w, kLibraries + 400, 100, {.prot = PROT_NONE});
    add_region(w, kLibraries + 500, 64, {.prot = kWrite, .name = "arena", .present = 40});
    add_region(w, kLibraries + 564, 32,
               {.prot = kWrite, .kind = RegionKind::shared_anonymous, .flags = kRegionShared});
    add_region(w, kStack, 33, {.prot = kWrite, .kind = RegionKind::stack, .present = 4});
    check(w.add_pages(kMemory, kHeap, pages(seed, 48)));
    check(w.add_zero(kMemory, kHeap + 48, 23));
    check(w.add_pages(kMemory, kLibraries + 500, pages(uint8_t(seed + 1), 40)));
    check(w.add_pages(kMemory, kStack + 29, pages(uint8_t(seed + 2), 4)));
}

Committed ordinary(const std::string &path, uint32_t pid, std::string_view comm)
{
    auto w = writer(path, {.packing = Packing::automatic, .package_blocks = 4});
    add_ordinary(*w, pid, comm, uint8_t(pid));
    return check(w->commit());
}

// Each text says where it stands, so that the test can find out that none is left out.
std::string evil(std::string_view where)
{
    return fmt::format(
        "</style></title>{}<script>alert(1)</script>\"'&amp; "
        "<img src=x onerror=alert(2)>\" onclick=\"alert(3)\n\xff\xc3\xe2\x80\xae\x1b["
        "2J{}",
        where, "<!--");
}

void hostile(const std::string &path)
{
    std::string words[] = {evil("args"),      evil("environ"), evil("thread"), evil("file"),
                           evil("anonymous"), evil("memfd"),   evil("notice"), evil("subject")};
    for (size_t i = 0; i < 2; i++)
        words[i] += '\0';
    std::string comm = evil("comm");
    std::string info[] = {evil("host"), evil("user"),    evil("request"),
                          evil("tool"), evil("backend"), evil("snapshot"),
                          evil("cwd"),  evil("cpu"),     evil("link")};
    auto w = writer(path, {.package_blocks = 4});
    check(w->add(ImageInfo{.tool = info[3],
                           .host = info[0],
                           .user = info[1],
                           .request = info[2],
                           .backend = info[4],
                           .snapshot = info[5],
                           .stopped_ns = 1}));
    check(w->add(Process{.pid = 412, .comm = comm, .cwd = info[6]}));
    check(w->add(Memory{.object = kMemory}));
    check(w->add(Args{.data = as_bytes(words[0])}));
    check(w->add(Environ{.data = as_bytes(words[1])}));
    check(w->add(Cpu{.model = info[7]}));
    check(w->add(Thread{.tid = 412, .name = words[2]}));
    check(w->add(File{.id = 1, .flags = kFileUnlinked, .path = words[3]}));
    check(w->add(File{.id = 2, .kind = FileKind::memfd, .link = info[8]}));
    check(w->add(OpenFile{.id = 1, .file = 1}));
    check(w->add(OpenFile{.id = 2, .file = 2}));
    check(w->add(OpenFile{.id = 3, .file = 99}));
    for (uint32_t fd = 0; fd < 4; fd++) // the last leads to no open file
        check(w->add(Descriptor{.fd = fd, .open_file = fd + 1}));
    check(w->add(Notice{.severity = 1, .subject = words[7], .text = words[6]}));
    // Places that no process has: overlapping, backwards, at the end of all addresses.
    auto odd = [&](uint64_t start, uint64_t end, Region r) {
        r.start = start;
        r.end = end;
        r.object = kMemory;
        r.object_page = start / kPageSize;
        check(w->add(r));
    };
    odd(0x10000, 0x20000, {.prot = kWrite, .name = words[4]});
    odd(0x18000, 0x17000, {.prot = kWrite});
    odd(0, UINT64_MAX, {.prot = kWrite, .kind = RegionKind::memfd, .name = words[5]});
    odd(UINT64_MAX - 0x1fff, UINT64_MAX,
        {.prot = kRead, .kind = RegionKind::private_file, .file = 1});
    odd(0x18001, 0x19003, {.prot = 0xffffffff, .kind = static_cast<RegionKind>(77)});
    check(w->add_pages(kMemory, 0x10, pages(1, 2)));
    check(w->commit());
}

void crowd(const std::string &path)
{
    auto w = writer(path, {.package_blocks = 4});
    add_process(*w, 412, "crowd");
    for (uint32_t i = 0; i < 3000; i++)
        check(w->add(Thread{.tid = 412 + i, .name = "worker"}));
    check(w->add(File{.id = 1, .path = "/lib/libcrowd.so", .size = 1 << 20}));
    check(w->add(File{.id = 2, .kind = FileKind::socket}));
    check(w->add(OpenFile{.id = 1, .file = 1}));
    check(w->add(OpenFile{.id = 2, .file = 2}));
    for (uint32_t fd = 0; fd < 10'000; fd++)
        check(w->add(Descriptor{.fd = fd, .open_file = fd < 9000 ? 2U : 1U}));
    constexpr uint64_t kCount = 60'000;
    for (uint64_t i = 0; i < kCount; i++) {
        std::string name = fmt::format("arena {}", i % 300);
        Region r{.prot = kWrite, .name = name, .present = 1};
        if (i % 3 == 0)
            r = {.prot = i % 2 ? kExecute : kRead, .kind = RegionKind::private_file, .file = 1};
        add_region(*w, kLibraries + 4 * i, 2, r);
    }
    for (uint64_t i = 1; i < kCount; i += 150)
        check(w->add_pages(kMemory, kLibraries + 4 * i, pages(uint8_t(i), 1)));
    check(w->commit());
}

void many(const std::string &path)
{
    ArchiveWriter out(check(FileSink::create(path, {.direct = false, .sync = false})));
    for (uint32_t pid = 500; pid < 530; pid++) {
        auto w = check(out.begin_member({}));
        add_ordinary(*w, pid, "melt", uint8_t(pid));
        check(out.end_member(*w, {.pid = pid, .ppid = 500, .comm = "melt"}));
    }
    out.add_without_image({.state = MemberState::zombie, .pid = 530, .ppid = 500, .comm = "gone"});
    check(out.commit({.scope = Scope::tree, .root_pid = 500}));
}

void chain(const std::string &path)
{
    std::filesystem::create_directory(path);
    Committed last = ordinary(path + "/context.0", 412, "melt");
    for (uint8_t i = 1; i < 4; i++) {
        auto w = writer(fmt::format("{}/context.{}", path, i),
                        {.base = BaseImage{last.id, last.checksum}});
        add_process(*w, 412, "melt");
        add_region(*w, kHeap, 96, {.prot = kWrite, .kind = RegionKind::heap, .present = 48});
        check(w->add_pages(kMemory, kHeap, pages(i, i)));
        check(w->add_base(kMemory, kHeap + i, 48U - i, kHeap + i));
        last = check(w->commit());
    }
}

coord::SnapshotImage rank(const std::string &top, int seq, uint32_t number)
{
    const int pid = 500 + int(number);
    const std::string directory = fmt::format("{}/{}/{}", top, seq, coord::rank_directory(number));
    std::filesystem::create_directories(directory);
    const std::string path = directory + "/" + coord::image_name(pid);
    const Committed made = ordinary(path, uint32_t(pid), number ? "ring" : "<b>ring</b>");
    coord::SnapshotImage out{.rank = number,
                             .pid = pid,
                             .node = number < 2 ? "node1" : "<i>node2</i>",
                             .file = coord::image_name(pid),
                             .bytes = made.size};
    if (number == 0) {
        out.checksum = made.checksum.hex();
        out.local = "/scratch/cryo/0";
    }
    if (seq == 5 && number == 2)
        std::filesystem::remove(path);
    return out;
}

void job(const std::string &top)
{
    std::filesystem::create_directory(top);
    std::map<int, coord::Snapshot> all;
    constexpr const char *kTimes[][2] = {
        {"Sat Nov 28 12:00:01 2026", "Sat Nov 28 12:00:04 2026"},
        {"Sat Nov 28 12:10:00 2026", "Sat Nov 28 12:10:05 2026"},
        {"Sat Nov 28 12:20:00 2026", "Sat Nov 28 12:20:03 2026"},
        {"Sat Nov 28 12:30:00 2026", "<script>alert(4)</script>"},
        {"Sat Nov 28 12:40:00 2026", "Sat Nov 28 12:40:06 2026"},
        {"Sat Nov 28 13:20:00 2026", "Sat Nov 28 13:20:02 2026"},
        {"Sat Nov 28 13:30:00 2026", ""},
    };
    for (int seq = 0; seq < int(std::size(kTimes)); seq++) {
        coord::Snapshot s{.seq = seq,
                          .finished = *kTimes[seq][1] != 0,
                          .started = kTimes[seq][0],
                          .completed = kTimes[seq][1],
                          .job = "412-0",
                          .launcher = 412,
                          .command = {"mpirun", "-n", "3", "./ring", "<script>alert(5)</script>"},
                          .directory = "/home/user/run"};
        for (uint32_t number = 0; s.finished && number < 3; number++)
            s.images.push_back(rank(top, seq, number));
        if (seq == 5) {
            s.redundancy = "xor";
            s.sets = {{"a", {"node1", "<i>node2</i>"}}};
        }
        all[seq] = std::move(s);
    }
    std::ofstream(top + "/global_snapshot_meta.data") << coord::metadata_text(all);
}

void brought_back(const std::string &top)
{
    std::filesystem::create_directory(top);
    std::map<int, coord::Snapshot> all;
    for (int seq = 2; seq < 6; seq++) {
        all[seq] = {.seq = seq,
                    .finished = true,
                    .started = "Sat Nov 28 12:00:01 2026",
                    .completed = "Sat Nov 28 12:00:04 2026",
                    .job = "777-0",
                    .launcher = 777,
                    .command = {"mpirun", "--oversubscribe", "-x", "CRYO_JOB", "-x", "LD_PRELOAD",
                                "-n", "1", "/usr/bin/opal-restart", "-l", "/home/user/ckpt/1"}};
        all[seq].images.push_back(rank(top, seq, 1));
    }
    std::ofstream(top + "/global_snapshot_meta.data") << coord::metadata_text(all);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fmt::print(stderr, "usage: make_pages DIRECTORY\n");
        return 255;
    }
    const std::string to = std::string(argv[1]) + "/";
    hostile(to + "hostile");
    crowd(to + "crowd");
    many(to + "many");
    chain(to + "chain");
    job(to + "job");
    brought_back(to + "back");
}
