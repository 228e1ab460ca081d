// SPDX-License-Identifier: Apache-2.0
// Pipes and FIFOs. If the program holds both ends, the contents are saved too; if the other end is
// outside, the pipe becomes cr_restart's own input or output.
#include "capture/files.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace cryo::capture {

using image::FileKind;

namespace {

constexpr size_t longest_packet = 4096; // PIPE_BUF; a page

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
Result<bool> alone(const PipeEnds &ends)
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

} // namespace

// Each of cr_restart's descriptors can stand for one pipe only. Pipes that are the program's
// standard input and output take precedence over other inherited ones.
Result<std::set<uint32_t>> Files::read_pipes_to_outside(const std::map<uint32_t, PipeEnds> &pipes)
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
                close_pipe(seen_[ends.any]);
            }
            records_.add(record);
        }
    }
    return outside;
}

void Files::close_pipe(const Seen &seen)
{
    const std::string_view name = file_record(seen).path;
    // A FIFO can be reopened by name, so closing it for good would change what it is.
    if (seen.kind == FileKind::fifo && !options_.close_fifos && !options_.refuse_pipes)
        refuse(seen, fmt::format("a second pipe to outside, the FIFO {}", name),
               "--pipes=close brings it back as closed at the other end" + offer(seen, seen.link),
               Passing::soon);
    else if (options_.refuse_pipes)
        refuse(seen, fmt::format("a second pipe to outside, {}", name),
               "without --pipes=refuse it comes back as closed at the other end" +
                   offer(seen, seen.link));
    else
        notices_.push_back(
            fmt::format("descriptor {}, a pipe to a process outside ({}), comes back "
                        "as closed at its other end; what was not read yet is lost",
                        seen.passed_in < 0 ? seen.fd : seen.passed_in, name));
}

Result<void> Files::read_pipes()
{
    std::map<uint32_t, PipeEnds> pipes; // by FILE
    for (size_t i = 0; i < seen_.size(); i++) {
        const Seen &seen = seen_[i];
        if (seen.open_file == 0 || (seen.flags & O_PATH) != 0 ||
            (seen.kind != FileKind::pipe && seen.kind != FileKind::fifo))
            continue;
        PipeEnds &ends = pipes[record_of(seen).file];
        ends.any = i;
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
    for (const auto &[place, seen] : descriptor_) { // of any process
        if (seen_[seen].open_file == 0)
            continue;
        if (const auto at = pipes.find(record_of(seen_[seen]).file); at != pipes.end())
            at->second.standard |= place.second <= STDERR_FILENO;
    }
    Result<std::set<uint32_t>> outside = read_pipes_to_outside(pipes);
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
                record.object = copied(image::ObjectKind::pipe_contents, std::move(*bytes));
                if (ends.packets)
                    record.packets = strings_.keep_list(packets);
            }
        }
        records_.add(record);
    }
    return {};
}

} // namespace cryo::capture
