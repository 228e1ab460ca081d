// SPDX-License-Identifier: Apache-2.0
// pipe(2) and mkfifo(3). If the program holds both ends, the contents are saved too; if the other
// end is outside, the pipe becomes cr_restart's own input or output.
#include "resources/every_kind.hpp"

#include "resources/descriptor_text.hpp"
#include "resources/fifo_ends.hpp"
#include "resources/object_rights.hpp"
#include "resources/reopening.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <poll.h>
#include <set>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo::resources {

using image::FileKind;

namespace {

constexpr size_t longest_packet = 4096; // PIPE_BUF; a page

// The ends of a pipe or FIFO that the program holds.
struct HeldEnds {
    const Seen *any = nullptr; // one of its open files
    bool standard = false;     // one of them is descriptor 0, 1 or 2
    int reader = -1;           // a descriptor of the program for each direction
    int writer = -1;
    bool packets = false;
    int shared_reader = -1; // our descriptors of the same open files
    int shared_writer = -1;
};

// The contents of a pipe, read from a copy; `packets` receives the sizes of its packets.
Result<std::string> copy_contents(int end, int capacity, int waiting,
                                  std::vector<uint32_t> *packets)
{
    // tee(2) copies what is in the pipe and leaves it there.
    int copy[2];
    if (pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0)
        return Error::from_errno("pipe", errno);
    const Fd out(copy[0]);
    const Fd in(copy[1]);
    if (fcntl(in.get(), F_SETPIPE_SZ, capacity) < 0)
        return Error::from_errno("making a pipe as large as the program's", errno);
    const ssize_t teed = tee(end, in.get(), static_cast<size_t>(waiting), SPLICE_F_NONBLOCK);
    if (teed != waiting)
        return Error::from_errno("copying what is in a pipe", teed < 0 ? errno : EIO);
    std::string bytes(static_cast<size_t>(waiting) + longest_packet, 0);
    size_t at = 0;
    while (at < static_cast<size_t>(waiting)) {
        // The copy keeps packets apart, and a read returns at most one.
        const size_t want = packets != nullptr ? longest_packet : bytes.size() - at;
        const ssize_t n = ::read(out.get(), &bytes[at], want);
        if (n <= 0)
            return Error::from_errno("copying what is in a pipe", n < 0 ? errno : EIO);
        at += static_cast<size_t>(n);
        if (packets != nullptr)
            packets->push_back(static_cast<uint32_t>(n));
    }
    bytes.resize(at);
    return bytes;
}

// Whether the program holds one end of the pipe and no process holds the other.
Result<bool> alone(const HeldEnds &ends)
{
    const bool reads = ends.reader >= 0;
    pollfd look = {reads ? ends.shared_reader : ends.shared_writer, 0, 0};
    if (poll(&look, 1, 0) < 0)
        return Error::from_errno("looking at a pipe", errno);
    if ((look.revents & (reads ? POLLHUP : POLLERR)) != 0)
        return true;
    if (!reads)
        return false;
    // poll(2) reports a FIFO that never had a writer as if it had one; tee(2) tells the difference.
    int aside[2];
    if (pipe2(aside, O_CLOEXEC | O_NONBLOCK) != 0)
        return Error::from_errno("pipe", errno);
    const Fd out(aside[0]);
    const Fd in(aside[1]);
    return tee(ends.shared_reader, in.get(), 1, SPLICE_F_NONBLOCK) == 0;
}

void close_pipe(Saving &saving, const Seen &seen)
{
    const std::string_view name = saving.file(seen).path;
    const PipeChoice choice = saving.pipe_choice();
    // A FIFO can be reopened by name, so closing it for good would change what it is. One that the
    // program has only inherited is not reopened.
    if (seen.kind == FileKind::fifo && !choice.close_fifos && !choice.refuse &&
        !saving.is_inherited(seen))
        saving.refuse(seen, fmt::format("a second pipe to a process outside, the FIFO {}", name),
                      "--pipes=close brings it back as closed at the other end" +
                          saving.offer(seen, seen.link),
                      capture::Passing::soon);
    else if (choice.refuse)
        saving.refuse(seen, fmt::format("a second pipe to a process outside, {}", name),
                      "without --pipes=refuse it comes back as closed at the other end" +
                          saving.offer(seen, seen.link));
    else
        saving.notice(fmt::format("{}, a pipe to a process outside ({}), comes back "
                                  "as closed at its other end; what was not read yet is lost",
                                  descriptor_text(seen), name));
}

// Each of cr_restart's descriptors can stand for one pipe only. Pipes that are the program's
// standard input and output take precedence over other inherited ones.
Result<std::set<uint32_t>> save_outside(Saving &saving, const std::map<uint32_t, HeldEnds> &pipes)
{
    std::set<uint32_t> outside;
    std::set<int> taken; // those that stand for a pipe already
    for (const bool standard : {true, false}) {
        for (const auto &[file, ends] : pipes) {
            if (ends.standard != standard || (ends.reader >= 0 && ends.writer >= 0))
                continue;
            const Result<bool> nobody = alone(ends);
            if (!nobody)
                return nobody.error();
            if (*nobody)
                continue;
            outside.insert(file);
            image::Pipe record;
            record.file = file;
            record.outside = ends.reader < 0 ? 1 : 2;
            const int stands = ends.writer < 0 ? 0 : ends.writer == 2 ? 2 : 1;
            if (!taken.insert(stands).second) {
                record.outside += 2;
                close_pipe(saving, *ends.any);
            }
            saving.records().add(record);
        }
    }
    return outside;
}

// By FILE.
std::map<uint32_t, HeldEnds> held_ends(const Saving &saving)
{
    std::map<uint32_t, HeldEnds> pipes;
    for (const Seen &seen : saving.seen()) {
        if (seen.open_file == 0 || (seen.flags & O_PATH) != 0 ||
            (seen.kind != FileKind::pipe && seen.kind != FileKind::fifo))
            continue;
        HeldEnds &ends = pipes[saving.file(seen).id];
        ends.any = &seen;
        const uint32_t access = seen.flags & O_ACCMODE;
        if (access != O_WRONLY) {
            ends.reader = seen.fd;
            ends.shared_reader = seen.shared.get();
        }
        if (access != O_RDONLY) {
            ends.writer = seen.fd;
            ends.shared_writer = seen.shared.get();
        }
        ends.packets |= (seen.flags & O_DIRECT) != 0;
    }
    for (const Seen *seen : saving.standard()) {
        if (seen->open_file == 0)
            continue;
        if (const auto at = pipes.find(saving.file(*seen).id); at != pipes.end())
            at->second.standard = true;
    }
    return pipes;
}

Result<void> save_all(Saving &saving)
{
    const std::map<uint32_t, HeldEnds> pipes = held_ends(saving);
    Result<std::set<uint32_t>> outside = save_outside(saving, pipes);
    if (!outside)
        return outside.error();
    for (const auto &[file, ends] : pipes) {
        if (outside->count(file) != 0)
            continue;
        image::Pipe record;
        record.file = file;
        if (ends.reader >= 0) { // otherwise its contents can never be read
            const int capacity = fcntl(ends.shared_reader, F_GETPIPE_SZ);
            int waiting = 0;
            if (capacity < 0 || ioctl(ends.shared_reader, FIONREAD, &waiting) != 0)
                return Error::from_errno("looking into a pipe", errno);
            record.capacity = static_cast<uint64_t>(capacity);
            if (waiting > 0) {
                std::vector<uint32_t> packets;
                Result<std::string> bytes = copy_contents(ends.shared_reader, capacity, waiting,
                                                          ends.packets ? &packets : nullptr);
                if (!bytes)
                    return bytes.error();
                record.size = bytes->size();
                record.object = saving.copied(image::ObjectKind::pipe_contents, std::move(*bytes));
                if (ends.packets)
                    record.packets = saving.keep_list(packets);
            }
        }
        saving.records().add(record);
    }
    return {};
}

Result<Ends> anonymous()
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return Error::from_errno("making a pipe", errno);
    return Ends{Fd(fds[0]), Fd(fds[1])};
}

Result<void> fill(Opening &opening, const image::Pipe &pipe, int writer)
{
    Result<std::string> bytes = opening.contents(pipe.object, pipe.size);
    if (!bytes)
        return bytes.error();
    std::string_view rest = *bytes;
    const bool packets = !pipe.packets.empty();
    if (packets && fcntl(writer, F_SETFL, O_NONBLOCK | O_DIRECT) != 0)
        return Error::from_errno("putting a pipe into packet mode", errno);
    for (size_t i = 0; !rest.empty(); i++) {
        const size_t part = packets && i < pipe.packets.size()
                                ? std::min<size_t>(pipe.packets[i], rest.size())
                                : rest.size();
        const ssize_t n = write(writer, rest.data(), part);
        if (n <= 0)
            return Error(n < 0 ? errno : EIO, "filling a pipe with what was in it: it holds less "
                                              "than the saved one");
        rest.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<void> open_inside(Opening &opening, const image::Pipe &pipe, const image::File &file)
{
    const bool named = file.kind == FileKind::fifo;
    // In a rehearsal, other users of the real FIFO would notice its ends and its data.
    Result<Ends> ends = named && !opening.rehearses() ? open_fifo(opening, file) : anonymous();
    if (!ends)
        return ends.error();
    const std::string what = named ? std::string(file.path) : "a pipe";
    if (pipe.capacity > 0 &&
        fcntl(ends->writer.get(), F_SETPIPE_SZ, static_cast<int>(pipe.capacity)) < 0)
        return Error(errno, fmt::format("making {} hold {} bytes: {} (see "
                                        "/proc/sys/fs/pipe-max-size)",
                                        what, pipe.capacity, strerror(errno)));
    if (pipe.size > 0) {
        if (Result<void> filled = fill(opening, pipe, ends->writer.get()); !filled)
            return filled;
    }
    bool given[2] = {false, false}; // the reader, the writer of an anonymous pipe
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        if (open_file.file != file.id || (open_file.flags & O_PATH) != 0 || opening.is_opened(id))
            continue;
        const uint32_t access = open_file.flags & O_ACCMODE;
        const int which = access == O_WRONLY ? 1 : 0;
        const Fd &end = which == 1 ? ends->writer : ends->reader;
        Fd own;
        if (!named && access != O_RDWR && !given[which]) {
            given[which] = true;
            own.reset(fcntl(end.get(), F_DUPFD_CLOEXEC, 3));
            if (!own)
                return Error::from_errno("opening " + what, errno);
            if (Result<void> set = set_flags(own.get(), open_file.flags, what); !set)
                return set;
        } else {
            // An end that was opened a second time is an open file of its own.
            Result<Fd> again = open_again(end.get(), open_file.flags, what);
            if (!again)
                return again.error();
            own = std::move(*again);
        }
        if (Result<void> kept = opening.keep(std::move(own), id); !kept)
            return kept;
    }
    // Last, as a mode may forbid to open an end once more.
    if (!named) {
        if (std::string lost = give_object_rights(ends->writer.get(), file, opening.trust(), what);
            !lost.empty())
            opening.notice(std::move(lost));
    }
    return {};
}

Result<void> open_outside(Opening &opening, const image::Pipe &pipe, const image::File &file)
{
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        if (open_file.file != file.id || (open_file.flags & O_PATH) != 0 || opening.is_opened(id))
            continue;
        if (pipe.outside > 2) {
            Result<Ends> ends = anonymous();
            if (!ends)
                return ends.error();
            Fd &end = (open_file.flags & O_ACCMODE) == O_WRONLY ? ends->writer : ends->reader;
            if (Result<void> set = set_flags(end.get(), open_file.flags, file.path); !set)
                return set;
            if (Result<void> kept = opening.keep(std::move(end), id); !kept)
                return kept;
            opening.notice(
                fmt::format("{}, a pipe to a process outside the image, is closed at its other end",
                            descriptor_text(opening.descriptor(id))));
            continue;
        }
        const Result<int> which = opening.keep_standard(open_file);
        if (!which)
            return which.error();
        opening.notice(
            fmt::format("a pipe to a process outside the image is cr_restart's standard {} now",
                        *which == 0   ? "input"
                        : *which == 1 ? "output"
                                      : "error output"));
    }
    return {};
}

Result<void> open_pipes(Opening &opening)
{
    for (const auto &[id, pipe] : opening.of<image::Pipe>()) {
        const auto file = opening.of<image::File>().find(id);
        if (file == opening.of<image::File>().end())
            return Error(EINVAL, "a pipe refers to no file");
        Result<void> done = pipe.outside != 0 ? open_outside(opening, pipe, file->second)
                                              : open_inside(opening, pipe, file->second);
        if (!done)
            return done;
    }
    return {};
}

} // namespace

const Kind pipe_kind = {
    .link = "pipe:[",
    .is =
        [](const Seen &seen) {
            return S_ISFIFO(seen.status.st_mode) && seen.link.starts_with("pipe:");
        },
    .save_all = save_all,
    .open = open_pipes,
};
// All that is done to pipes is done to FIFOs with them.
const Kind fifo_kind = {
    .link = "pipe:[", // in a rehearsal, which has a pipe in its place
    .is = [](const Seen &seen) { return S_ISFIFO(seen.status.st_mode) != 0; },
};

} // namespace cryo::resources
