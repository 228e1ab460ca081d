// SPDX-License-Identifier: Apache-2.0
// Descriptors: every open file once (open_*.cpp), then its numbers. They are opened out of the way
// of all saved numbers, so no order of opening can collide.
#include "base/limits.hpp"
#include "resources/cuts.hpp"
#include "resources/socket/open_more.hpp"
#include "restore/open_parts.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// The most that a restart has open: all open files above the program's numbers, a descriptor of
// each file and of each piece of shared memory, and Cryo's own.
size_t numbers_needed(const Planning &p)
{
    constexpr size_t own = 32;
    return static_cast<size_t>(p.plan.first_free()) + p.saved.open_files().size() +
           p.saved.files().size() + own;
}

} // namespace

Result<int> keep_open(Planning &p, Fd fd, uint32_t open_file)
{
    const int number = fcntl(fd.get(), F_DUPFD_CLOEXEC, p.plan.first_free());
    if (number < 0) {
        const int why = errno == EINVAL ? EMFILE : errno; // the first of them is beyond the limit
        return Error(why, fmt::format("more descriptors than may be open here: {}; raise the hard "
                                      "limit (ulimit -Hn) to {} at least",
                                      strerror(why), numbers_needed(p)));
    }
    p.plan.inherited.emplace_back(number);
    if (open_file != 0)
        p.open_fds[open_file] = number;
    return number;
}

Operand opened(const Planning &p, uint32_t open_file)
{
    if (const auto fd = p.open_fds.find(open_file); fd != p.open_fds.end())
        return value(fd->second);
    return result(p.open_slots.at(open_file));
}

bool is_opened(const Planning &p, uint32_t open_file)
{
    return p.open_fds.count(open_file) != 0 || p.open_slots.count(open_file) != 0;
}

Result<std::string> small_contents(Planning &p, uint32_t object, uint64_t size)
{
    constexpr uint64_t most = 64 << 20;
    if (size > most)
        return Error(EINVAL, fmt::format("object {} is larger than a queue can be", object));
    std::string bytes((size + image::kPageSize - 1) / image::kPageSize * image::kPageSize, 0);
    if (Result<void> got = p.image.read_pages(
            object, 0, {reinterpret_cast<uint8_t *>(bytes.data()), bytes.size()});
        !got)
        return got.error();
    bytes.resize(size);
    return bytes;
}

int descriptor_of(const Planning &p, uint32_t open_file)
{
    for (const image::Descriptor &d : p.saved.descriptors()) {
        if (d.open_file == open_file)
            return static_cast<int>(d.fd);
    }
    return -1;
}

uint32_t open_file_at(const Planning &p, int fd)
{
    for (const image::Descriptor &d : p.saved.descriptors()) { // of the first process at first
        if (d.fd == static_cast<uint32_t>(fd))
            return d.open_file;
    }
    return 0;
}

int standard_for(const Planning &p, const image::OpenFile &open_file)
{
    bool second = false;
    bool other = false;
    for (const image::Descriptor &d : p.saved.descriptors()) {
        if (d.open_file != open_file.id)
            continue;
        if (d.fd == 0)
            return 0;
        (d.fd == 2 ? second : other) = true;
    }
    if ((open_file.flags & O_ACCMODE) == O_RDONLY)
        return 0;
    return second && !other ? 2 : 1;
}

Result<int> open_standard(Planning &p, int which, uint32_t open_file)
{
    Fd own(fcntl(which, F_DUPFD_CLOEXEC, 3));
    if (!own)
        return Error::from_errno(fmt::format("taking over descriptor {} of cr_restart", which),
                                 errno);
    return keep_open(p, std::move(own), open_file);
}

namespace {

// With --keep-output: whatever is open for writing in a file of cr_restart's own output becomes
// that output, which others, such as a batch script, have written to since the checkpoint.
Result<void> join_output(Planning &p)
{
    if (!p.options.files.keep_output || p.options.rehearse)
        return {};
    for (const auto &[id, open_file] : p.saved.open_files()) {
        const image::File &file = p.saved.files().at(open_file.file);
        if (file.kind != image::FileKind::regular || p.open_fds.contains(id) ||
            (open_file.flags & O_PATH) != 0 || (open_file.flags & O_ACCMODE) == O_RDONLY)
            continue;
        const int own = resources::own_output(std::string(file.path));
        if (own < 0)
            continue;
        if (Result<int> kept = open_standard(p, own, id); !kept)
            return kept.error();
    }
    return {};
}

// Opens the user's redirections of standard descriptors: for all of the open file's numbers.
Result<void> redirect(Planning &p)
{
    for (const auto &[fd, name] : p.options.files.redirected) {
        const std::string path = p.options.rehearse ? "/dev/null" : name; // no file is created
        const uint32_t open_file = open_file_at(p, fd);
        if (open_file == 0)
            return Error(EINVAL, fmt::format("descriptor {} cannot be redirected: the program had "
                                             "closed it",
                                             fd));
        if (path == "-") {
            if (Result<int> kept = open_standard(p, fd, open_file); !kept)
                return kept.error();
            continue;
        }
        Fd file(open(path.c_str(),
                     fd == 0 ? O_RDONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                     0666));
        if (!file)
            return Error(errno, fmt::format("descriptor {}: {}: {}", fd, path, strerror(errno)));
        if (Result<int> kept = keep_open(p, std::move(file), open_file); !kept)
            return kept.error();
    }
    if (Result<void> done = join_output(p); !done)
        return done;
    for (const auto &[id, fd] : p.open_fds)
        p.redirected.insert(id);
    return {};
}

// What follows finds the file of each open file and lock.
Result<void> check_files(const Planning &p)
{
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (!p.saved.files().contains(open_file.file))
            return Error(EINVAL, fmt::format("open file {} refers to no file", id));
    }
    for (const image::Lock &lock : p.saved.of<image::Lock>()) {
        if (!p.saved.files().contains(lock.file))
            return Error(EINVAL, "a lock refers to no file");
    }
    return {};
}

} // namespace

Result<void> open_files(Planning &p)
{
    if (Result<void> done = check_files(p); !done)
        return done;
    if (Result<void> done = spare_leases(p); !done)
        return done;
    allow_descriptors();
    if (Result<void> done = redirect(p); !done)
        return done;
    if (Result<void> may = resources::may_open_sockets(*opening_of(p)); !may)
        return may;
    using Step = Result<void> (*)(Planning &);
    for (const Step step : {Step(open_contents), Step(open_kinds), Step(open_sockets)}) {
        if (Result<void> done = step(p); !done)
            return done;
    }
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (is_opened(p, id))
            continue;
        const image::File &file = p.saved.files().at(open_file.file);
        if (Result<void> done = open_by_name(p, file, open_file); !done)
            return done;
    }
    return fill_sockets(p);
}

Result<void> plan_files(Planning &p)
{
    Program &program = p.plan.program;
    const std::string what = fmt::format("changing to the directory {}", p.saved.process.cwd);
    if (const auto removed = p.file_fds.find(p.saved.process.cwd_file); removed != p.file_fds.end())
        program.call(what, SYS_fchdir, {value(removed->second)});
    else
        program.call(what, SYS_chdir, {program.text(p.saved.process.cwd)});
    // Also 0 to 2: the program may have had none.
    program.call("closing", SYS_close_range, {value(0), value(p.plan.floor - 1), value(0)});
    if (Result<void> done = place_kinds(p); !done)
        return done;
    for (const image::Descriptor &d : p.saved.descriptors()) {
        if (!is_opened(p, d.open_file))
            return Error(EINVAL, fmt::format("descriptor {} refers to no open file", d.fd));
        program.call(fmt::format("giving descriptor {} its number", d.fd), SYS_dup3,
                     {opened(p, d.open_file), value(d.fd), value(d.close_on_exec ? O_CLOEXEC : 0)});
    }
    return {};
}

namespace {

// Maps a file that is written back in its place, because its
// descriptor must be closed again before locks are taken.
void reach(Program &program, Replacement &one)
{
    if (!one.in_place || one.size == 0)
        return;
    const std::string what = fmt::format("reaching {}", one.path);
    const uint16_t fd = program.slot();
    one.mapped = program.slot();
    program.call(what, SYS_openat,
                 {value(AT_FDCWD), program.text(one.path), value(O_RDWR | O_CLOEXEC)}, fd);
    program.call(what, SYS_mmap,
                 {value(0), value(one.size), value(PROT_READ | PROT_WRITE), value(MAP_SHARED),
                  result(fd), value(0)},
                 one.mapped);
    program.call(what, SYS_close, {result(fd)});
}

} // namespace

void plan_last_descriptor_work(Planning &p)
{
    for (Replacement &one : p.plan.replacements.all())
        reach(p.plan.program, one);
    // Closing any descriptor of a file gives up the process's locks on it: so they come after this.
    int from = p.plan.header.status_fd + 1;
    for (const int fd : spared_to_the_end(p)) {
        if (from < fd)
            p.plan.program.call("closing", SYS_close_range, {value(from), value(fd - 1), value(0)});
        from = fd + 1;
    }
    p.plan.program.call("closing", SYS_close_range, {value(from), value(~0U), value(0)});
    plan_locks(p);
}

namespace {

// The copy beside it is complete: everything that can fail has been done.
void put_back(Program &program, const Replacement &one)
{
    const std::string what = fmt::format("putting {} back", one.path);
    const Operand beside = program.text(one.beside);
    const Operand path = program.text(one.path);
    if (!one.in_place) {
        program.call(what, SYS_rename, {beside, path});
        return;
    }
    const uint16_t from = program.slot();
    program.call(what, SYS_truncate, {path, value(one.size)});
    if (one.size != 0) {
        program.call(what, SYS_openat, {value(AT_FDCWD), beside, value(O_RDONLY | O_CLOEXEC)},
                     from);
        program.call_exact(what, SYS_read, one.size,
                           {result(from), result(one.mapped), value(one.size)});
        program.call(what, SYS_close, {result(from)});
        program.call(what, SYS_munmap, {result(one.mapped), value(one.size)});
    }
    constexpr int64_t second = 1'000'000'000;
    const timespec times[2] = {{0, UTIME_OMIT}, {one.modified / second, one.modified % second}};
    program.try_call(what, SYS_utimensat,
                     {value(AT_FDCWD), path, program.data(times, sizeof(times)), value(0)});
    program.call(what, SYS_unlink, {beside});
}

} // namespace

namespace {

void plan_cuts(Planning &p)
{
    for (const Replacement &one : p.plan.replacements.all())
        put_back(p.plan.program, one);
    cut_files(p);
}

} // namespace

void plan_truncation(Planning &p)
{
    if (!p.options.rehearse)
        plan_cuts(p);
    plan_owners(p);
    plan_listeners(p);
    finish_kinds(p);
}

} // namespace cryo::restore
