// SPDX-License-Identifier: Apache-2.0
#include "restore/ipc_objects.hpp"

#include "base/fd.hpp"
#include "image/messages.hpp"
#include "restore/ipc_users.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cryo::restore {

using image::Ipc;
using image::IpcKind;

namespace {

constexpr uint64_t page = image::kPageSize;
void *const nowhere = reinterpret_cast<void *>(-1);

// IPC_STAT, IPC_SET and IPC_RMID of all kinds.
struct Status {
    union {
        shmid_ds segment;
        semid_ds semaphores;
        msqid_ds queue;
    };
};

int control(IpcKind kind, int id, int command, Status *status)
{
    switch (kind) {
    case IpcKind::segment:
        return shmctl(id, command, status != nullptr ? &status->segment : nullptr);
    case IpcKind::semaphores:
        return semctl(id, 0, command, status != nullptr ? &status->semaphores : nullptr);
    case IpcKind::queue:
        return msgctl(id, command, status != nullptr ? &status->queue : nullptr);
    }
    errno = EINVAL;
    return -1;
}

ipc_perm &permissions(IpcKind kind, Status &status)
{
    return kind == IpcKind::segment      ? status.segment.shm_perm
           : kind == IpcKind::semaphores ? status.semaphores.sem_perm
                                         : status.queue.msg_perm;
}

uint64_t size_of(IpcKind kind, const Status &status)
{
    return kind == IpcKind::segment      ? status.segment.shm_segsz
           : kind == IpcKind::semaphores ? status.semaphores.sem_nsems
                                         : 0;
}

Error failed(const Ipc &ipc, const char *what)
{
    return Error::from_errno(fmt::format("{}: {}", name_of(ipc), what), errno);
}

// Sets the id that the next new object gets; −1: any. False: not permitted.
bool choose_id(IpcKind kind, int id)
{
    const char *name = kind == IpcKind::segment      ? "/proc/sys/kernel/shm_next_id"
                       : kind == IpcKind::semaphores ? "/proc/sys/kernel/sem_next_id"
                                                     : "/proc/sys/kernel/msg_next_id";
    const Fd file(open(name, O_WRONLY | O_CLOEXEC));
    const std::string text = std::to_string(id);
    return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// While it exists, root acts as the object's creator, whom the kernel records.
class Creator
{
  public:
    explicit Creator(const Ipc &ipc) : uid_(geteuid()), gid_(getegid())
    {
        if (uid_ != 0)
            return;
        syscall(SYS_setresgid, -1, ipc.creator_gid, -1);
        syscall(SYS_setresuid, -1, ipc.creator_uid, -1);
    }
    Creator(const Creator &) = delete;
    Creator &operator=(const Creator &) = delete;
    ~Creator()
    {
        if (uid_ != 0)
            return;
        syscall(SYS_setresuid, -1, uid_, -1);
        syscall(SYS_setresgid, -1, gid_, -1);
    }

  private:
    uid_t uid_;
    gid_t gid_;
};

int get(const Ipc &ipc, int flags)
{
    const auto key = static_cast<key_t>(ipc.key);
    switch (ipc.kind) {
    case IpcKind::segment:
        return shmget(key, flags != 0 ? ipc.size : 0, flags);
    case IpcKind::semaphores:
        return semget(key, flags != 0 ? static_cast<int>(ipc.size) : 0, flags);
    case IpcKind::queue:
        return msgget(key, flags);
    }
    errno = EINVAL;
    return -1;
}

// Sets owner, mode, and a queue's limit. An object to be filled stays accessible to us,
// and its limit is not lowered: the program may have lowered it when the queue held more.
Result<void> set_permissions(const Ipc &ipc, int id, bool to_be_filled)
{
    Status status = {};
    if (control(ipc.kind, id, IPC_STAT, &status) != 0)
        return failed(ipc, "looking at it");
    constexpr uint32_t ours = 0600;
    const uint32_t mode = ipc.mode | (to_be_filled ? ours : 0);
    ipc_perm &now = permissions(ipc.kind, status);
    const uid_t uid = now.uid;
    const gid_t gid = now.gid;
    bool same = now.uid == ipc.uid && now.gid == ipc.gid && (now.mode & 0777U) == mode;
    now.uid = ipc.uid;
    now.gid = ipc.gid;
    now.mode = static_cast<decltype(now.mode)>(mode);
    if (ipc.kind == IpcKind::queue) {
        msglen_t &limit = status.queue.msg_qbytes;
        same = same && (limit == ipc.size || (to_be_filled && limit > ipc.size));
        limit = to_be_filled ? std::max<msglen_t>(limit, ipc.size) : ipc.size;
    }
    int result = same ? 0 : control(ipc.kind, id, IPC_SET, &status);
    if (result != 0 && errno == EINVAL && (ipc.uid != uid || ipc.gid != gid)) {
        // A user namespace (--pidns) does not have that user, so no process could use the object as
        // its owner; its creator can keep it.
        now.uid = uid;
        now.gid = gid;
        result = control(ipc.kind, id, IPC_SET, &status);
    }
    return result == 0 ? Result<void>() : failed(ipc, "giving it its owner, mode and limit");
}

} // namespace

// Makes an object with the saved id, if that may be chosen; one.made says whether there is one.
Result<void> IpcObjects::create(One &one)
{
    const Ipc &ipc = one.saved;
    const bool removed = (ipc.flags & image::kIpcRemoved) != 0;
    constexpr int turns = 20; // attempts: another restart may choose at the same time
    for (int turn = 0; turn < turns; turn++) {
        const bool chosen = choose_id(ipc.kind, ipc.id);
        if (!chosen && !removed)
            return Error(
                EPERM,
                fmt::format("{} is gone, and the programs use this id, which Cryo may not choose "
                            "here; it may with CAP_CHECKPOINT_RESTORE, or with --pidns",
                            name_of(ipc)));
        {
            const Creator creator(ipc);
            one.id = get(ipc, IPC_CREAT | IPC_EXCL | static_cast<int>(ipc.mode | 0600));
        }
        const int error = errno;
        if (chosen && one.id < 0)
            choose_id(ipc.kind, -1);
        if (one.id < 0 && error == EEXIST)
            return Error(EEXIST, fmt::format("{} is gone, and its key belongs to another one now, "
                                             "{}; remove that one (ipcrm), or use --pidns",
                                             name_of(ipc), get(ipc, 0)));
        errno = error;
        if (one.id < 0)
            return failed(ipc, "making it again");
        one.made = true;
        if (one.id == ipc.id || !chosen)
            return {};
        if (removed && turn == turns - 1)
            return {};
        control(ipc.kind, one.id, IPC_RMID, nullptr);
        one.made = false;
        const timespec pause = {0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
    return Error(EEXIST, fmt::format("{} is gone, and another one has its place in the kernel's "
                                     "table; with --pidns all places are free",
                                     name_of(ipc)));
}

Result<void> IpcObjects::make_again(One &one, std::vector<std::string> &notices)
{
    const Ipc &ipc = one.saved;
    if (Result<void> created = create(one); !created)
        return created;
    if (one.id != ipc.id)
        notices.push_back(fmt::format("{} was removed while it was attached, and comes back as {}",
                                      name_of(ipc), one.id));
    if (Result<void> set = set_permissions(ipc, one.id, true); !set)
        return set;
    if ((ipc.flags & image::kIpcRemoved) == 0)
        return {};
    // Our attachment keeps it alive until the processes have attached it.
    void *at = shmat(one.id, nullptr, 0);
    if (at == nowhere)
        return failed(ipc, "attaching it");
    one.held = at;
    control(ipc.kind, one.id, IPC_RMID, nullptr);
    return {};
}

Result<void> IpcObjects::bring(One &one, std::vector<std::string> &notices)
{
    const Ipc &ipc = one.saved;
    const bool removed = (ipc.flags & image::kIpcRemoved) != 0;
    Status status = {};
    if (Result<void> unused = await_unused(ipc); !unused)
        return unused;
    if (control(ipc.kind, ipc.id, IPC_STAT, &status) != 0) {
        if (errno != EINVAL && errno != EIDRM)
            return failed(ipc, "looking at it");
        return make_again(one, notices);
    }
    const ipc_perm &now = permissions(ipc.kind, status);
    if (removed || static_cast<uint32_t>(now.__key) != ipc.key || now.cuid != ipc.creator_uid ||
        size_of(ipc.kind, status) != (ipc.kind == IpcKind::queue ? 0 : ipc.size))
        return Error(EEXIST, fmt::format("{}: another one has this id now; remove it (ipcrm), or "
                                         "use --pidns",
                                         name_of(ipc)));
    one.id = ipc.id;
    return set_permissions(ipc, one.id, true);
}

Result<std::unique_ptr<IpcObjects>> IpcObjects::make(const std::vector<Ipc> &records,
                                                     image::Image &image,
                                                     std::vector<std::string> &notices)
{
    std::unique_ptr<IpcObjects> objects(new IpcObjects(image));
    std::map<uint32_t, uint64_t> sizes;
    Result<void> read = image.for_each<image::Object>(
        [&](const image::Object &object) { sizes[object.id] = object.size; });
    if (!read)
        return read.error();
    for (const Ipc &record : records) {
        One one;
        one.saved = record;
        for (size_t i = 0; i < record.values.size(); i++)
            one.values.push_back(static_cast<unsigned short>(record.values[i]));
        one.saved.values = {};
        one.saved.pids = {};
        one.bytes = record.kind == IpcKind::queue ? sizes[record.object] : 0;
        const bool good = record.kind == IpcKind::segment      ? record.object != 0
                          : record.kind == IpcKind::semaphores ? one.values.size() == record.size
                                                               : record.kind == IpcKind::queue;
        if (!good)
            return Error(EINVAL, "a damaged record of a System V object");
        objects->all_.push_back(std::move(one));
        if (Result<void> there = objects->bring(objects->all_.back(), notices); !there)
            return there.error();
    }
    return objects;
}

IpcObjects::~IpcObjects()
{
    for (const One &one : all_) {
        if (one.held != nullptr)
            shmdt(one.held);
        else if (one.made && !stay_)
            control(one.saved.kind, one.id, IPC_RMID, nullptr);
    }
}

IpcObjects::Segment IpcObjects::segment(uint32_t object) const
{
    for (const One &one : all_) {
        if (one.saved.kind == IpcKind::segment && one.saved.object == object)
            return {one.id, one.saved.size};
    }
    return {-1, 0};
}

Result<void> IpcObjects::fill_segment(One &one)
{
    const Ipc &ipc = one.saved;
    void *at = one.held != nullptr ? one.held : shmat(one.id, nullptr, 0);
    if (at == nowhere)
        return failed(ipc, "attaching it");
    auto *start = static_cast<uint8_t *>(at);
    const uint64_t pages = (ipc.size + page - 1) / page;
    if (!one.made && madvise(at, pages * page, MADV_REMOVE) != 0)
        memset(at, 0, pages * page);
    Result<void> filled;
    for (uint64_t i = 0; filled && i < pages;) {
        Result<image::Run> run = image_.find(ipc.object, i);
        const uint64_t count = run ? std::min(run->count, pages - i) : 0;
        if (!run)
            filled = run.error();
        else if (count == 0)
            filled = Error(EINVAL, "the image's index is empty where memory should be");
        else if (!run->hole && run->kind != image::ExtentKind::zero)
            filled = image_.read_pages(ipc.object, i,
                                       image::MutableBytes(start + i * page, count * page));
        i += count;
    }
    if (at != one.held)
        shmdt(at);
    return filled;
}

Result<void> IpcObjects::fill_queue(const One &one)
{
    const Ipc &ipc = one.saved;
    Status status = {};
    while (control(ipc.kind, one.id, IPC_STAT, &status) == 0 && status.queue.msg_qnum > 0) {
        std::vector<long> buffer(2);
        if (msgrcv(one.id, buffer.data(), 0, 0, IPC_NOWAIT | MSG_NOERROR) < 0 && errno != ENOMSG)
            return failed(ipc, "emptying it");
    }
    std::vector<uint8_t> bytes((one.bytes + page - 1) / page * page);
    if (Result<void> read =
            bytes.empty() ? Result<void>() : image_.read_pages(ipc.object, 0, bytes);
        !read)
        return read;
    const auto messages =
        image::read_messages(image::as_text(image::Bytes(bytes.data(), one.bytes)));
    if (!messages)
        return Error(EINVAL, "damaged messages of a System V queue");
    for (const image::QueueMessage &message : *messages) {
        std::vector<long> buffer(2 + message.text.size() / sizeof(long));
        buffer[0] = static_cast<long>(message.type);
        memcpy(&buffer[1], message.text.data(), message.text.size());
        if (msgsnd(one.id, buffer.data(), message.text.size(), IPC_NOWAIT) != 0)
            return failed(ipc, "putting its messages back (the limits kernel.msgmax and "
                               "kernel.msgmnb may be lower here)");
    }
    return {};
}

Result<void> IpcObjects::fill_semaphores(One &one)
{
    constexpr short highest = 32767;
    if (semctl(one.id, 0, SETALL, one.values.data()) != 0)
        return failed(one.saved, "setting its values");
    if ((one.saved.flags & image::kIpcOperated) == 0)
        return {};
    // Programs take a set without any operation (sem_otime 0) for one that is not initialised.
    const short change = one.values[0] < highest ? 1 : -1;
    sembuf there_and_back[] = {{0, change, IPC_NOWAIT},
                               {0, static_cast<short>(-change), IPC_NOWAIT}};
    if (semop(one.id, there_and_back, 2) != 0)
        return failed(one.saved, "an operation on it");
    return {};
}

Result<void> IpcObjects::fill()
{
    for (One &one : all_) {
        Result<void> filled;
        if (one.saved.kind == IpcKind::segment)
            filled = fill_segment(one);
        else if (one.saved.kind == IpcKind::queue)
            filled = fill_queue(one);
        else
            filled = fill_semaphores(one);
        if (!filled)
            return filled;
    }
    return {};
}

Result<void> IpcObjects::finish()
{
    for (One &one : all_) {
        if ((one.saved.flags & image::kIpcLocked) != 0 && one.made)
            shmctl(one.id, SHM_LOCK, nullptr);
        if (Result<void> set = set_permissions(one.saved, one.id, false); !set)
            return set;
        if (one.held != nullptr)
            shmdt(std::exchange(one.held, nullptr));
    }
    stay_ = true;
    return {};
}

} // namespace cryo::restore
