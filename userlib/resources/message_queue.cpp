// SPDX-License-Identifier: Apache-2.0
// mq_open(3): a POSIX message queue, with its messages. The program's agent reads them, because
// that requires taking them out and putting them back. A queue that still exists at a restart is
// put back to its saved state, if no other process has it open.
#include "resources/every_kind.hpp"

#include "base/open_found.hpp"
#include "base/patience.hpp"
#include "base/trust.hpp"
#include "image/messages.hpp"
#include "look/former_holders.hpp"
#include "look/proc.hpp"
#include "look/queue_holders.hpp"
#include "resources/reopening.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <mqueue.h>
#include <optional>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

bool is_queue(const Seen &seen)
{
    constexpr long message_queues = 0x19800202; // mqueue's magic
    struct statfs system;
    // Asked only of files on no device, for there may be thousands.
    return seen.shared && S_ISREG(seen.status.st_mode) && major(seen.status.st_dev) == 0 &&
           fstatfs(seen.shared.get(), &system) == 0 && system.f_type == message_queues;
}

// The process registered for a notification (mq_notify); 0: none.
pid_t notified(int queue)
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
    return static_cast<pid_t>(capture::take_number(status));
}

Result<void> save(Saving &saving, const Seen &seen)
{
    const image::File &file = saving.file(seen);
    const auto &known = saving.records().of<image::PosixQueue>();
    if (std::ranges::find(known, file.id, &image::PosixQueue::file) != known.end())
        return {};
    const std::string what = "the POSIX message queue " + std::string(file.path);
    image::PosixQueue queue;
    queue.file = file.id;
    mq_attr now;
    if (mq_getattr(seen.shared.get(), &now) != 0)
        return Error::from_errno(what, errno);
    queue.max_messages = static_cast<uint64_t>(now.mq_maxmsg);
    queue.max_bytes = static_cast<uint64_t>(now.mq_msgsize);
    // Not touched at all: putting its messages back would trigger the notification.
    if (notified(seen.shared.get()) != 0) {
        saving.refuse(seen, what + ", which has a notification registered (mq_notify)",
                      "remove it before the checkpoint (mq_notify with a null pointer)");
        return {};
    }
    if (const pid_t other = capture::queue_holder(seen.status, saving.members(false)); other != 0) {
        saving.refuse(seen, fmt::format("{}, which process {} outside has open, too", what, other),
                      "save that process with this one, or let it close the queue");
    } else if (now.mq_curmsgs > 0) {
        Result<std::string> bytes = saving.messages(seen);
        if (!bytes) {
            saving.refuse(
                seen,
                fmt::format("{}, whose messages cannot be read: {}", what, bytes.error().text()),
                "receive them before the checkpoint", capture::Passing::soon);
        } else {
            queue.size = bytes->size();
            queue.object = saving.copied(image::ObjectKind::messages, std::move(*bytes));
        }
    }
    saving.records().add(queue);
    return {};
}

std::string title(const image::File &file)
{
    return fmt::format("the POSIX message queue {}", file.path);
}

// Anybody may have taken the name of a queue that was gone.
Result<void> check_owner(const Opening &opening, int queue, const image::File &file)
{
    struct stat now = {};
    if (fstat(queue, &now) != 0)
        return Error::from_errno(title(file), errno);
    const std::optional<uid_t> user = opening.trust().owner_of(queue, now);
    if (!user)
        return Error(EPERM, fmt::format("{}: its owner cannot be determined", title(file)));
    if (opening.trust().is_owner(*user) || (*user == file.uid && !is_unknown(file.uid)))
        return {};
    return Error(EPERM,
                 fmt::format("{} belongs to user {} now; have it removed (mq_unlink), or say "
                             "with --owner {} that you trust that user",
                             title(file), user_text(*user), *user));
}

// Waits for holders that are ending.
Result<void> await_unused(int queue, const image::File &file)
{
    struct stat status;
    if (fstat(queue, &status) != 0)
        return Error::from_errno(title(file), errno);
    for (int waited_ms = 0;; waited_ms += release_poll_ms) {
        const pid_t pid = capture::queue_holder(status);
        if (pid == 0)
            return {};
        if (!restore::is_passing(pid) || waited_ms >= release_limit_ms)
            return Error(EBUSY, fmt::format("{} is in use: process {} has it open; its contents "
                                            "would change while they are in use. End that process "
                                            "first, or use --pidns, which makes a separate copy",
                                            title(file), pid));
        const timespec pause = {0, release_poll_ms * 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

// The existing queue, emptied; an empty Fd: there is none.
Result<Fd> empty_old(const Opening &opening, const image::PosixQueue &saved,
                     const image::File &file, const std::string &name)
{
    Fd queue(mq_open(name.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!queue)
        return errno == ENOENT ? Result<Fd>(Fd()) : Error::from_errno(title(file), errno);
    if (Result<void> good = check_owner(opening, queue.get(), file); !good)
        return good.error();
    mq_attr now;
    if (mq_getattr(queue.get(), &now) != 0)
        return Error::from_errno(title(file), errno);
    if (static_cast<uint64_t>(now.mq_maxmsg) != saved.max_messages ||
        static_cast<uint64_t>(now.mq_msgsize) != saved.max_bytes)
        return Error(EEXIST, fmt::format("{} is another one now, for {} messages of {} bytes "
                                         "instead of {} of {}; remove it (mq_unlink)",
                                         title(file), now.mq_maxmsg, now.mq_msgsize,
                                         saved.max_messages, saved.max_bytes));
    if (Result<void> unused = await_unused(queue.get(), file); !unused)
        return unused.error();
    std::string text(saved.max_bytes, 0);
    while (mq_receive(queue.get(), text.data(), text.size(), nullptr) >= 0)
        ;
    if (errno != EAGAIN)
        return Error::from_errno(title(file), errno);
    return queue;
}

Result<Fd> make(const image::PosixQueue &saved, const image::File &file, const std::string &name)
{
    mq_attr wanted = {};
    wanted.mq_maxmsg = static_cast<long>(saved.max_messages);
    wanted.mq_msgsize = static_cast<long>(saved.max_bytes);
    Fd queue(
        mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600, &wanted));
    if (!queue)
        return Error(errno, fmt::format("making {}: {} (see /proc/sys/fs/mqueue, and ulimit -q)",
                                        title(file), strerror(errno)));
    if (geteuid() == 0 && fchown(queue.get(), file.uid, file.gid) != 0)
        return Error::from_errno("giving " + title(file) + " its owner", errno);
    return queue;
}

Result<void> fill(Opening &opening, const image::PosixQueue &saved, const image::File &file,
                  int queue)
{
    if (saved.object == 0)
        return {};
    Result<std::string> bytes = opening.contents(saved.object, saved.size);
    if (!bytes)
        return bytes.error();
    const auto messages = image::read_messages(*bytes);
    if (!messages)
        return Error(EINVAL, "the saved contents of " + title(file) + " are damaged");
    for (const image::QueueMessage &message : *messages) {
        if (mq_send(queue, message.text.data(), message.text.size(),
                    static_cast<unsigned>(message.type)) != 0)
            return Error::from_errno("filling " + title(file), errno);
    }
    return {};
}

Result<void> open_one(Opening &opening, const image::PosixQueue &saved, const image::File &file)
{
    const bool gone = (file.flags & image::kFileUnlinked) != 0;
    const std::string name =
        gone ? fmt::format("/cryo.{}.{}", getpid(), file.id) : std::string(file.path);
    Result<Fd> queue = gone ? Result<Fd>(Fd()) : empty_old(opening, saved, file, name);
    if (queue && !*queue)
        queue = make(saved, file, name);
    if (!queue)
        return queue.error();
    Result<void> done = fill(opening, saved, file, queue->get());
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        if (!done || open_file.file != file.id || opening.is_opened(id))
            continue;
        // Not by its name, which may lead to another one by now.
        Result<Fd> own =
            open_again(queue->get(), open_file.flags & (O_ACCMODE | O_NONBLOCK), title(file));
        if (!own)
            done = own.error();
        else if (Result<void> kept = opening.keep(std::move(*own), id); !kept)
            done = kept.error();
    }
    // Last: the saved mode may forbid an open that the program has already done.
    struct stat now;
    if (done && fstat(queue->get(), &now) == 0 && now.st_mode != file.mode &&
        fchmod(queue->get(), file.mode & 07777) != 0)
        done = Error::from_errno("giving " + title(file) + " its permissions", errno);
    if (gone)
        mq_unlink(name.c_str());
    return done;
}

Result<void> open(Opening &opening)
{
    for (const auto &[id, queue] : opening.of<image::PosixQueue>()) {
        const auto file = opening.of<image::File>().find(id);
        if (file == opening.of<image::File>().end())
            return Error(EINVAL, "a message queue refers to no file");
        if (Result<void> done = open_one(opening, queue, file->second); !done)
            return done;
    }
    return {};
}

} // namespace

const Kind message_queue_kind = {
    .is = is_queue,
    .only_of_processes = "a POSIX message queue,",
    .save = save,
    .open = open,
};

} // namespace cryo::resources
