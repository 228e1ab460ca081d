// SPDX-License-Identifier: Apache-2.0
// POSIX message queues, with their messages. A queue that still exists
// is put back to its saved state, if no other process has it open.
#include "restore/open_parts.hpp"

#include "base/trust.hpp"
#include "image/messages.hpp"
#include "look/queue_holders.hpp"
#include "restore/former_holders.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <mqueue.h>
#include <optional>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

std::string what(const image::File &file)
{
    return fmt::format("the POSIX message queue {}", file.path);
}

// Anybody may have taken the name of a queue that was gone.
Result<void> check_owner(const Planning &p, int queue, const image::File &file)
{
    struct stat now = {};
    if (fstat(queue, &now) != 0)
        return Error::from_errno(what(file), errno);
    const std::optional<uid_t> user = p.options.trust->owner_of(queue, now);
    if (!user)
        return Error(EPERM, fmt::format("{}: it cannot be told to whom it belongs", what(file)));
    if (p.options.trust->is_owner(*user) || (*user == file.uid && !is_unknown(file.uid)))
        return {};
    return Error(EPERM,
                 fmt::format("{} belongs to user {} now; have it removed (mq_unlink), or say "
                             "with --owner {} that you trust that user",
                             what(file), user_text(*user), *user));
}

// Waits for holders that are ending.
Result<void> await_unused(int queue, const image::File &file)
{
    constexpr int turn_ms = 5;
    constexpr int patience_ms = 5000;
    struct stat status;
    if (fstat(queue, &status) != 0)
        return Error::from_errno(what(file), errno);
    for (int waited_ms = 0;; waited_ms += turn_ms) {
        const pid_t pid = capture::queue_holder(status);
        if (pid == 0)
            return {};
        if (!is_passing(pid) || waited_ms >= patience_ms)
            return Error(EBUSY, fmt::format("{} is in use: process {} has it open; what it holds "
                                            "would change under it. End that first, or use "
                                            "--pidns, which gives a copy of its own",
                                            what(file), pid));
        const timespec pause = {0, turn_ms * 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

// The existing queue, emptied; an empty Fd: there is none.
Result<Fd> empty_old(const Planning &p, const image::PosixQueue &saved, const image::File &file,
                     const std::string &name)
{
    Fd queue(mq_open(name.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!queue)
        return errno == ENOENT ? Result<Fd>(Fd()) : Error::from_errno(what(file), errno);
    if (Result<void> good = check_owner(p, queue.get(), file); !good)
        return good.error();
    mq_attr now;
    if (mq_getattr(queue.get(), &now) != 0)
        return Error::from_errno(what(file), errno);
    if (static_cast<uint64_t>(now.mq_maxmsg) != saved.max_messages ||
        static_cast<uint64_t>(now.mq_msgsize) != saved.max_bytes)
        return Error(EEXIST, fmt::format("{} is another one now, for {} messages of {} bytes "
                                         "instead of {} of {}; remove it (mq_unlink)",
                                         what(file), now.mq_maxmsg, now.mq_msgsize,
                                         saved.max_messages, saved.max_bytes));
    if (Result<void> unused = await_unused(queue.get(), file); !unused)
        return unused.error();
    std::string text(saved.max_bytes, 0);
    while (mq_receive(queue.get(), text.data(), text.size(), nullptr) >= 0)
        ;
    if (errno != EAGAIN)
        return Error::from_errno(what(file), errno);
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
                                        what(file), strerror(errno)));
    if (geteuid() == 0 && fchown(queue.get(), file.uid, file.gid) != 0)
        return Error::from_errno("giving " + what(file) + " its owner", errno);
    return queue;
}

Result<void> fill(Planning &p, const image::PosixQueue &saved, const image::File &file, int queue)
{
    if (saved.object == 0)
        return {};
    Result<std::string> bytes = small_contents(p, saved.object, saved.size);
    if (!bytes)
        return bytes.error();
    const auto messages = image::read_messages(*bytes);
    if (!messages)
        return Error(EINVAL, "what was in " + what(file) + " is damaged");
    for (const image::QueueMessage &message : *messages) {
        if (mq_send(queue, message.text.data(), message.text.size(),
                    static_cast<unsigned>(message.type)) != 0)
            return Error::from_errno("filling " + what(file), errno);
    }
    return {};
}

Result<void> open_queue(Planning &p, const image::PosixQueue &saved, const image::File &file)
{
    const bool gone = (file.flags & image::kFileUnlinked) != 0;
    const std::string name =
        gone ? fmt::format("/cryo.{}.{}", getpid(), file.id) : std::string(file.path);
    Result<Fd> queue = gone ? Result<Fd>(Fd()) : empty_old(p, saved, file, name);
    if (queue && !*queue)
        queue = make(saved, file, name);
    if (!queue)
        return queue.error();
    Result<void> done = fill(p, saved, file, queue->get());
    for (const auto &[id, open_file] : p.saved.open_files) {
        if (!done || open_file.file != file.id || is_opened(p, id))
            continue;
        // Not by its name, which may lead to another one by now.
        Result<Fd> own =
            open_again(queue->get(), open_file.flags & (O_ACCMODE | O_NONBLOCK), what(file));
        if (!own)
            done = own.error();
        else if (Result<int> kept = keep_open(p, std::move(*own), id); !kept)
            done = kept.error();
    }
    // Last: the saved mode may forbid an open that the program has already done.
    struct stat now;
    if (done && fstat(queue->get(), &now) == 0 && now.st_mode != file.mode &&
        fchmod(queue->get(), file.mode & 07777) != 0)
        done = Error::from_errno("giving " + what(file) + " its permissions", errno);
    if (gone)
        mq_unlink(name.c_str());
    return done;
}

} // namespace

Result<void> open_queues(Planning &p)
{
    for (const auto &[id, queue] : p.saved.queues) {
        const auto file = p.saved.files.find(id);
        if (file == p.saved.files.end())
            return Error(EINVAL, "a message queue refers to no file");
        if (Result<void> done = open_queue(p, queue, file->second); !done)
            return done;
    }
    return {};
}

} // namespace cryo::restore
