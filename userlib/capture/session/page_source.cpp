// SPDX-License-Identifier: Apache-2.0
// Gets pages from the server of a frozen program: into memory, or into a file.
#include "capture/session/page_source.hpp"

#include "base/passing.hpp"
#include "base/remote_address_text.hpp"
#include "look/members.hpp"
#include "protocol/agent.hpp"
#include "protocol/outgoing.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/cryo.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::capture {

using agent::Reply;

PageSource::PageSource(Fd commands, Fd pipe, pid_t pid)
    : commands_(std::move(commands)), pipe_(std::move(pipe)), pid_(pid),
      blocks_(fcntl(pipe_.get(), F_SETFL, O_NONBLOCK) != 0)
{}

// The server may be waiting for us to read; then this must not wait for it. All requests go in one
// call, because the server is faster than we are and would be woken for each one.
Result<size_t> PageSource::ask(std::span<const Run> runs, bool zeros_behind_file, int protection)
{
    std::array<agent::Outgoing, most_asked> packets;
    std::array<iovec, most_asked> parts;
    std::array<mmsghdr, most_asked> messages = {};
    const size_t count = std::min(runs.size(), most_asked - std::min(asked_.size(), most_asked));
    for (size_t i = 0; i < count; i++) {
        const agent::PagesRequest request = {
            .flags = zeros_behind_file ? agent::PagesRequest::zeros_for_missing : 0,
            .start = RemoteAddress(runs[i].start),
            .length = runs[i].end - runs[i].start,
            .protection = protection};
        packets[i] = agent::Outgoing(request, is_typed_);
        const std::span<const char> bytes = packets[i].bytes();
        parts[i] = {const_cast<char *>(bytes.data()), bytes.size()};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    if (count == 0)
        return size_t(0);
    const int flags = MSG_NOSIGNAL | (asked_.empty() && count == 1 ? 0 : MSG_DONTWAIT);
    const int sent =
        sendmmsg(commands_.get(), messages.data(), static_cast<unsigned>(count), flags);
    // A server that has ended has sent the reason; reading what was requested earlier finds it.
    const bool told = (errno == EPIPE || errno == ECONNRESET) && !asked_.empty();
    if (sent < 0 && errno != EAGAIN && errno != EINTR && !told)
        return Error::from_errno(fmt::format("asking process {} for its memory", pid_), errno);
    const size_t asked = sent < 0 ? 0 : static_cast<size_t>(sent);
    asked_.insert(asked_.end(), runs.begin(), runs.begin() + static_cast<ptrdiff_t>(asked));
    return asked;
}

template <class R>
Result<void> PageSource::send(const R &request)
{
    const agent::Outgoing packet(request, is_typed_);
    const std::span<const char> bytes = packet.bytes();
    if (send_with(commands_.get(), bytes, {}) == static_cast<ssize_t>(bytes.size()))
        return {};
    return Error::from_errno(fmt::format("asking process {} for its memory", pid_), errno);
}

// The server has sent the reason, if it could.
Error PageSource::ended(uint64_t bytes, RemoteAddress address) const
{
    Reply bad = {};
    const ssize_t got = receive_packet(commands_.get(), room_in(bad), MSG_DONTWAIT);
    const int why = got == sizeof(bad) ? static_cast<int>(-bad.result) : EPIPE;
    Error told = Error::from_errno(
        fmt::format("process {} ended while sending {} bytes at {:x}", pid_, bytes, address), why);
    if (program_serves_ && has_ended(pid_))
        return {told.code(), told.text(), Reason::has_ended};
    return told;
}

// A server that sends nothing, or next to nothing, is not waited for.
Result<void> PageSource::await_pages(RemoteAddress address)
{
    if (Result<void> early = check_deadline(deadline_); !early)
        return early;
    if (patience_.await(pipe_.get()))
        return {};
    return Error(EBUSY,
                 fmt::format("process {} sends nothing of its memory at {:x} for {:.0f} s: it "
                             "is stopped or hangs; try again, or give it more time with "
                             "--stall=SECONDS",
                             pid_, address, static_cast<double>(silence_ns_) / 1e9));
}

Result<void> PageSource::read(RemoteAddress address, std::span<char> to, bool zeros_behind_file,
                              int protection)
{
    const Run wanted = {address.number(), address.number() + to.size()};
    while (asked_.empty()) {
        if (Result<size_t> asked = ask({&wanted, 1}, zeros_behind_file, protection); !asked)
            return asked.error();
    }
    if (asked_.front().start != wanted.start || asked_.front().end != wanted.end)
        return Error(EINVAL, "the pages that are read are not those that were requested");
    asked_.pop_front();
    patience_.begin_anew();
    while (!to.empty()) {
        if (Result<void> come = blocks_ ? await_pages(address) : Result<void>(); !come)
            return come;
        const ssize_t n = ::read(pipe_.get(), to.data(), to.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (Result<void> come = await_pages(address); !come)
                return come;
            continue;
        }
        if (n < 0)
            return Error::from_errno("reading pages", errno);
        if (n == 0)
            return ended(to.size(), address);
        to = to.subspan(static_cast<size_t>(n));
        patience_.note(static_cast<uint64_t>(n));
        if (moved_)
            moved_(static_cast<uint64_t>(n));
    }
    return check_deadline(deadline_);
}

// Requests as many of the first parts as have the same settings.
Result<size_t> PageSource::ask_alike(std::span<const Part> parts)
{
    std::array<Run, most_asked> runs;
    size_t count = 0;
    while (count < std::min(parts.size(), most_asked) && parts[count].is_alike(parts[0])) {
        runs[count] = parts[count].run;
        count++;
    }
    if (count == 0)
        return size_t(0);
    return ask({runs.data(), count}, parts[0].zeros_behind_file, parts[0].protection);
}

// Moves the contents of the pipe, or a part of them: at least a byte, unless the server has ended.
// Copies the bytes if the file system does not take pages by reference.
Result<uint64_t> PageSource::move(const Target &to, uint64_t most)
{
    auto at = static_cast<loff_t>(to.offset);
    ssize_t n;
    while ((n = splice(pipe_.get(), nullptr, to.file, &at, most, SPLICE_F_NONBLOCK)) < 0 &&
           (errno == EINTR || errno == EAGAIN)) {
        Result<void> come =
            errno == EAGAIN ? await_pages(RemoteAddress(asked_.front().start)) : Result<void>();
        if (!come)
            return come.error();
    }
    if (n >= 0)
        return static_cast<uint64_t>(n);
    if (errno != EINVAL)
        return Error::from_errno(to.name + ": writing", errno);
    std::array<char, 65536> bytes;
    while ((n = ::read(pipe_.get(), bytes.data(), std::min<uint64_t>(most, bytes.size()))) < 0 &&
           (errno == EINTR || errno == EAGAIN)) {
        Result<void> come =
            errno == EAGAIN ? await_pages(RemoteAddress(asked_.front().start)) : Result<void>();
        if (!come)
            return come.error();
    }
    if (n < 0)
        return Error::from_errno("reading pages", errno);
    for (ssize_t done = 0; done < n;) {
        const ssize_t put = pwrite(to.file, bytes.data() + done, static_cast<size_t>(n - done),
                                   static_cast<off_t>(to.offset) + done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return Error::from_errno(to.name + ": writing", put == 0 ? EIO : errno);
        done += put;
    }
    return static_cast<uint64_t>(n);
}

Result<void> PageSource::put(std::span<const Part> parts, Target to)
{
    uint64_t due = 0; // bytes requested and not yet moved
    patience_.begin_anew();
    while (!parts.empty() || due > 0) {
        while (!parts.empty() && asked_.size() < most_asked) {
            const Result<size_t> asked = ask_alike(parts);
            if (!asked)
                return asked.error();
            if (*asked == 0)
                break; // it is waiting for us to read
            for (const Part &part : parts.first(*asked))
                due += part.run.end - part.run.start;
            parts = parts.subspan(*asked);
        }
        if (due == 0)
            continue;
        Result<uint64_t> moved = move(to, due);
        if (!moved)
            return moved.error();
        if (*moved == 0)
            return ended(due, RemoteAddress(asked_.front().start));
        to.offset += *moved;
        due -= *moved;
        patience_.note(*moved);
        if (moved_)
            moved_(*moved);
        for (uint64_t left = *moved; left > 0;) {
            Run &first = asked_.front();
            const uint64_t part = std::min(left, first.end - first.start);
            first.start += part;
            left -= part;
            if (first.start == first.end)
                asked_.pop_front();
        }
        if (Result<void> early = check_deadline(deadline_); !early)
            return early;
    }
    return {};
}

Result<std::vector<Run>> PageSource::unwritten(RemoteAddress start, RemoteAddress end)
{
    if (!scans_)
        return Error(EOPNOTSUPP, "the kernel module is not available");
    std::vector<cryo_run> runs(agent::scanned_at_once);
    std::vector<Run> found;
    while (start < end) {
        if (Result<void> sent = send(agent::ScanRequest{.start = start, .end = end}); !sent)
            return sent.error();
        Reply answer = {};
        if (!await_readable(commands_.get(), silence_ns_))
            return Error(EBUSY, fmt::format("process {} does not answer", pid_));
        if (receive_packet(commands_.get(), room_in(answer)) != sizeof(answer))
            return Error(EPIPE, fmt::format("process {} ended while it was asked", pid_));
        if (answer.result < 0)
            return Error::from_errno("looking through memory by the module",
                                     static_cast<int>(-answer.result));
        const size_t size = answer.count * sizeof(cryo_run);
        const std::span<char> room(reinterpret_cast<char *>(runs.data()),
                                   runs.size() * sizeof(cryo_run));
        const RemoteAddress reached(answer.value);
        if (answer.count > runs.size() || reached <= start || reached > end ||
            !await_readable(commands_.get(), silence_ns_) ||
            receive_packet(commands_.get(), room) != static_cast<ssize_t>(size))
            return Error(EPROTO,
                         fmt::format("process {} sends something other than its pages", pid_));
        for (const cryo_run &run : std::span(runs).first(answer.count)) {
            if (run.page_class != CRYO_ANON || (run.flags & CRYO_PAGE_SOFT_DIRTY) != 0)
                continue;
            if (!found.empty() && found.back().end == run.start)
                found.back().end += run.npages * image::kPageSize;
            else
                found.push_back({run.start, run.start + run.npages * image::kPageSize});
        }
        start = reached;
    }
    return found;
}

Result<void> PageSource::finish()
{
    return send(agent::EndRequest{});
}

} // namespace cryo::capture
