// SPDX-License-Identifier: Apache-2.0
//
// make_images DIRECTORY: hand-made images of which the test knows every byte.
//
//   first, second   two checkpoints of one process, with some changes in between
//   delta           the second as a delta of the first
//   archive, tree/  a parent, its child, and a zombie
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>

#include "making.hpp"

using namespace cryo;
using namespace cryo::image;

namespace {

constexpr uint32_t kMemory = 1;
constexpr uint32_t kUnlinked = 2;
constexpr uint32_t kShared = 3;
constexpr uint64_t kHeap = 0x555555560000 / kPageSize;
constexpr uint64_t kData = 0x555555556000 / kPageSize;
constexpr uint64_t kStack = 0x7ffffffde000 / kPageSize;

void add_process(ImageWriter &w, uint32_t pid, std::string_view comm)
{
    check(w.add(ImageInfo{.tool = "0.1.0",
                          .host = "node17",
                          .kernel = "#1 SMP",
                          .user = "alice",
                          .request = "cr_checkpoint 412",
                          .backend = "user",
                          .snapshot = "fork",
                          .started = 1'700'000'000'000'000'000,
                          .stopped_ns = 14'000'000,
                          .total_ns = 1'200'000'000}));
    check(w.add(Process{.pid = pid,
                        .ppid = 1,
                        .pgid = pid,
                        .sid = pid,
                        .uid = 1000,
                        .euid = 1000,
                        .gid = 1000,
                        .egid = 1000,
                        .comm = comm,
                        .exe_file = 1,
                        .exe = "/usr/bin/melt",
                        .cwd = "/tmp/melt\033[31m"}));
    check(w.add(Memory{.object = kMemory, .start_brk = kHeap * kPageSize}));
    check(w.add(Args{.part = 1, .data = as_bytes(std::string_view("melt.in\0", 8))}));
    check(w.add(Args{.part = 0, .data = as_bytes(std::string_view("melt\0-in\0", 9))}));
    check(w.add(Environ{.data = as_bytes(std::string_view("HOME=/\0", 7))}));
    check(w.add(Cpu{.vendor = "GenuineIntel", .model = "A CPU"}));
    check(w.add(Rlimit{.resource = 7, .soft = 1024, .hard = 4096}));
    check(w.add(Sigaction{.signal = 15, .handler = 0x555555555100}));
}

void add_threads(ImageWriter &w, uint32_t pid, uint64_t ip)
{
    check(w.add(Thread{.tid = pid, .name = "melt", .ip = ip, .sp = 0x7ffffffde800}));
    check(w.add(Thread{.tid = pid + 1, .name = "worker", .ip = 0x1000, .affinity = {}}));
}

void add_regions(ImageWriter &w)
{
    auto region = [&](uint64_t first, uint64_t count, Region r) {
        r.start = first * kPageSize;
        r.end = (first + count) * kPageSize;
        if (!r.object) {
            r.object = kMemory;
            r.object_page = first;
        }
        check(w.add(r));
    };
    constexpr uint32_t rw = PROT_READ | PROT_WRITE;
    region(kData - 2, 2,
           {.prot = PROT_READ | PROT_EXEC, .kind = RegionKind::private_file, .file = 1});
    region(kData, 2,
           {.prot = rw,
            .kind = RegionKind::private_file,
            .file = 1,
            .file_offset = 0x2000,
            .present = 2});
    region(kHeap, 64, {.prot = rw, .kind = RegionKind::heap, .present = 40});
    region(0x7ffff7000, 8,
           {.prot = rw,
            .kind = RegionKind::shared_anonymous,
            .flags = kRegionShared,
            .object = kShared,
            .present = 8});
    region(kStack, 4, {.prot = rw, .kind = RegionKind::stack, .present = 3});
}

void add_files(ImageWriter &w, bool with_pipe)
{
    check(w.add(File{.id = 1, .path = "/usr/bin/melt", .size = 16384}));
    check(w.add(File{.id = 2,
                     .flags = kFileUnlinked | kFileContentsSaved,
                     .path = "/tmp/scratch",
                     .size = 6000,
                     .object = kUnlinked}));
    check(w.add(File{.id = 3, .path = "/tmp/log:1-2", .size = 77}));
    check(w.add(File{.id = 4, .kind = FileKind::pipe}));
    check(w.add(Object{.id = kUnlinked, .kind = ObjectKind::file_contents, .size = 6000}));
    check(w.add(Object{.id = kShared,
                       .kind = ObjectKind::shared_memory,
                       .size = 8 * kPageSize,
                       .name = "/dev/zero"}));
    check(w.add(OpenFile{.id = 1, .file = 2, .flags = O_RDWR, .position = 6000}));
    check(w.add(OpenFile{.id = 2, .file = 3, .flags = O_WRONLY | O_APPEND, .position = 77}));
    check(w.add(OpenFile{.id = 3, .file = 4}));
    check(w.add(Descriptor{.fd = 0, .open_file = 1}));
    check(w.add(Descriptor{.fd = 1, .open_file = 2}));
    check(w.add(Descriptor{.fd = 2, .open_file = 2, .close_on_exec = true}));
    if (with_pipe) {
        check(w.add(Descriptor{.fd = 5, .open_file = 3}));
        check(w.add(Pipe{.file = 4, .outside = 2}));
    }
    check(
        w.add(Notice{.severity = 1, .subject = "fd 5", .text = "its writer is not in this image"}));
}

void add_memory(ImageWriter &w, bool second)
{
    check(w.add_pages(kMemory, kData, pages(1, 2)));
    check(w.add_pages(kMemory, kHeap, pages(2, 32)));
    check(w.add_pages(kMemory, kHeap + 32, pages(second ? 77 : 34, 1)));
    check(w.add_zero(kMemory, kHeap + 33, 7));
    check(w.add_pages(kMemory, kStack + 1, pages(second ? 5 : 4, 3)));
    check(w.add_pages(kShared, 0, pages(9, 8)));
    auto contents = pages(50, 2);
    std::fill(contents.begin() + 6000, contents.end(), uint8_t(0));
    check(w.add_pages(kUnlinked, 0, contents));
}

void add_all(ImageWriter &w, uint32_t pid, std::string_view comm, bool second)
{
    add_process(w, pid, comm);
    add_threads(w, pid, second ? 0x555555555200 : 0x555555555100);
    add_files(w, !second);
    add_regions(w);
}

Committed plain(const std::string &path, bool second, Packing packing)
{
    auto w = writer(path, {.packing = packing, .package_blocks = 4});
    add_all(*w, 412, "melt", second);
    add_memory(*w, second);
    return check(w->commit());
}

void delta(const std::string &path, const Committed &base)
{
    auto w = writer(path, {.base = BaseImage{base.id, base.checksum}});
    add_all(*w, 412, "melt", true);
    check(w->add_base(kMemory, kData, 2, kData));
    check(w->add_base(kMemory, kHeap, 32, kHeap));
    check(w->add_pages(kMemory, kHeap + 32, pages(77, 1)));
    check(w->add_base(kMemory, kHeap + 33, 7, kHeap + 33));
    check(w->add_pages(kMemory, kStack + 1, pages(5, 3)));
    check(w->add_base(kShared, 0, 8, 0));
    check(w->add_base(kUnlinked, 0, 2, 0));
    check(w->commit());
}

void archive(const std::string &path)
{
    ArchiveWriter out(check(FileSink::create(path, {.direct = false, .sync = false})));
    for (auto [pid, comm] : {std::pair(412u, "melt"), {420u, "helper"}}) {
        auto w = check(out.begin_member({}));
        add_all(*w, pid, comm, false);
        add_memory(*w, false);
        check(out.end_member(*w, {.pid = pid, .ppid = pid == 412 ? 1u : 412u, .comm = comm}));
    }
    out.add_without_image({.state = MemberState::zombie, .pid = 421, .ppid = 412, .comm = "gone"});
    check(out.commit({.scope = Scope::tree, .root_pid = 412}));
}

void directory(const std::string &path)
{
    std::filesystem::create_directory(path);
    auto parent = plain(path + "/context.412", false, Packing::raw);
    Member member{.name = "context.412",
                  .length = parent.size,
                  .image_id = parent.id.bytes(),
                  .checksum = parent.checksum.bytes(),
                  .pid = 412,
                  .comm = "melt"};
    auto sink = check(FileSink::create(path + "/" + kTreeFile, {.direct = false, .sync = false}));
    check(write_tree(std::move(sink), {.root_pid = 412}, std::span(&member, 1)));
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fmt::print(stderr, "usage: make_images DIRECTORY\n");
        return 255;
    }
    std::string to = std::string(argv[1]) + "/";
    Committed first = plain(to + "first", false, Packing::automatic);
    plain(to + "second", true, Packing::raw);
    delta(to + "delta", first);
    archive(to + "archive");
    directory(to + "tree");
}
