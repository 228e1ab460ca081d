// SPDX-License-Identifier: Apache-2.0
// POSIX message queues and their messages. The program's agent reads the messages, because that
// requires taking them out and putting them back.
#include "base/open_found.hpp"
#include "capture/files.hpp"
#include "look/queue_holders.hpp"

#include "capture/session.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <mqueue.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// The process registered for a notification (mq_notify); 0: none.
pid_t who_is_told(int queue)
{
    // Reopened for reading: the status is read(2) from it, whatever access the original has.
    const Result<Fd> own = reopen(queue, O_RDONLY, "a message queue");
    char text[256];
    const ssize_t n = own ? pread(own->get(), text, sizeof(text), 0) : -1;
    if (n <= 0)
        return 0;
    std::string_view status(text, static_cast<size_t>(n));
    constexpr std::string_view key = "NOTIFY_PID:";
    const size_t at = status.find(key);
    if (at == std::string_view::npos)
        return 0;
    status.remove_prefix(at + key.size());
    return static_cast<pid_t>(take_number(status));
}

} // namespace

Result<void> Files::read_queue(const Seen &seen)
{
    const uint32_t file = record_of(seen).file;
    if (std::ranges::any_of(queues_, [file](const auto &known) { return known.file == file; }))
        return {};
    const std::string what = "the POSIX message queue " + std::string(file_record(seen).path);
    image::PosixQueue queue;
    queue.file = file;
    mq_attr now;
    if (mq_getattr(seen.shared.get(), &now) != 0)
        return Error::from_errno(what, errno);
    queue.max_messages = static_cast<uint64_t>(now.mq_maxmsg);
    queue.max_bytes = static_cast<uint64_t>(now.mq_msgsize);
    // Not touched at all: putting its messages back would trigger the notification.
    if (who_is_told(seen.shared.get()) != 0) {
        refuse(seen, what + ", which is to tell of a message (mq_notify)",
               "take that back before the checkpoint (mq_notify with a null pointer)");
        return {};
    }
    std::set<pid_t> members;
    for (const Holder &holder : holders_)
        members.insert(holder.proc.pid());
    if (const pid_t other = queue_holder(seen.status, members); other != 0) {
        refuse(seen, fmt::format("{}, which process {} outside has open, too", what, other),
               "save that process with this one, or let it close the queue");
    } else if (now.mq_curmsgs > 0) {
        Result<std::string> bytes = session_of(seen).queue(seen.fd);
        if (!bytes) {
            refuse(seen,
                   fmt::format("{}, whose messages cannot be read: {}", what, bytes.error().text()),
                   "receive them before the checkpoint", Passing::soon);
        } else {
            queue.size = bytes->size();
            queue.object = copied(image::ObjectKind::messages, std::move(*bytes));
        }
    }
    queues_.push_back(queue);
    return {};
}

} // namespace cryo::capture
