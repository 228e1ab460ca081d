// SPDX-License-Identifier: Apache-2.0
#include "capture/files/ipc_objects.hpp"

#include "capture/files/strings.hpp"
#include "capture/session/session.hpp"
#include "image/messages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

using image::Ipc;
using image::IpcKind;
using image::SemaphoreUndo;

namespace {

constexpr size_t page = image::kPageSize;

void take_permissions(Ipc &ipc, const ipc_perm &from)
{
    ipc.key = static_cast<uint32_t>(from.__key);
    ipc.mode = from.mode & 0777;
    ipc.uid = from.uid;
    ipc.gid = from.gid;
    ipc.creator_uid = from.cuid;
    ipc.creator_gid = from.cgid;
}

bool is_gone()
{
    return errno == EINVAL || errno == EIDRM;
}

std::string what(const Ipc &ipc)
{
    const char *kind = ipc.kind == IpcKind::segment      ? "shared memory segment"
                       : ipc.kind == IpcKind::semaphores ? "semaphore set"
                                                         : "message queue";
    return fmt::format("System V {} {}", kind, ipc.id);
}

Error unreadable(const Ipc &ipc)
{
    return Error::from_errno(what(ipc), errno);
}

// Attaches the segment for reading.
class Attached
{
  public:
    explicit Attached(int id) : at_(shmat(id, nullptr, SHM_RDONLY)) {}
    Attached(const Attached &) = delete;
    Attached &operator=(const Attached &) = delete;
    ~Attached()
    {
        if (good())
            shmdt(at_);
    }
    bool good() const { return at_ != reinterpret_cast<void *>(-1); }
    uint8_t *at(uint64_t offset) const { return static_cast<uint8_t *>(at_) + offset; }

  private:
    void *at_;
};

// Reading an untouched page would allocate it. mincore(2) shows which pages exist, unless some of
// them are in swap.
bool nothing_is_swapped()
{
    shm_info info = {};
    return shmctl(0, SHM_INFO, reinterpret_cast<shmid_ds *>(&info)) >= 0 && info.shm_swp == 0;
}

Result<void> save_segment(const Ipc &ipc, image::ImageWriter &writer)
{
    constexpr size_t part = 256; // pages
    const Attached segment(ipc.id);
    if (!segment.good())
        return unreadable(ipc);
    const uint64_t pages = (ipc.size + page - 1) / page;
    const bool can_ask = nothing_is_swapped();
    std::vector<unsigned char> there(part);
    for (uint64_t at = 0; at < pages; at += part) {
        const size_t count = std::min<uint64_t>(part, pages - at);
        std::fill(there.begin(), there.end(), 1);
        if (can_ask && mincore(segment.at(at * page), count * page, there.data()) != 0)
            std::fill(there.begin(), there.end(), 1);
        for (size_t first = 0; first < count;) {
            size_t end = first;
            while (end < count && (there[end] & 1) != 0)
                end++;
            const image::Bytes bytes(segment.at((at + first) * page), (end - first) * page);
            if (Result<void> added =
                    end > first ? writer.add_pages(ipc.object, at + first, bytes) : Result<void>();
                !added)
                return added;
            first = end + 1;
        }
    }
    return {};
}

} // namespace

Result<bool> IpcObjects::describe_segment(Ipc &ipc)
{
    shmid_ds status = {};
    if (shmctl(ipc.id, IPC_STAT, &status) != 0)
        return is_gone() ? Result<bool>(false) : unreadable(ipc);
    take_permissions(ipc, status.shm_perm);
    ipc.size = status.shm_segsz;
    if ((status.shm_perm.mode & SHM_DEST) != 0)
        ipc.flags |= image::kIpcRemoved;
    if ((status.shm_perm.mode & SHM_LOCKED) != 0)
        ipc.flags |= image::kIpcLocked;
    // Tried now, because a failure while saving would be too late to refuse.
    if (!Attached(ipc.id).good())
        return unreadable(ipc);
    ipc.object = objects_.take();
    return true;
}

Result<bool> IpcObjects::describe_semaphores(Ipc &ipc)
{
    semid_ds status = {};
    if (semctl(ipc.id, 0, IPC_STAT, &status) != 0)
        return is_gone() ? Result<bool>(false) : unreadable(ipc);
    take_permissions(ipc, status.sem_perm);
    ipc.size = status.sem_nsems;
    ipc.flags |= status.sem_otime != 0 ? image::kIpcOperated : 0;
    std::vector<unsigned short> values(ipc.size);
    if (semctl(ipc.id, 0, GETALL, values.data()) != 0)
        return unreadable(ipc);
    std::vector<uint32_t> pids;
    for (size_t i = 0; i < values.size(); i++) {
        const int pid = semctl(ipc.id, static_cast<int>(i), GETPID);
        if (pid < 0)
            return unreadable(ipc);
        pids.push_back(static_cast<uint32_t>(pid));
    }
    ipc.values = strings_.keep_list(std::vector<uint32_t>(values.begin(), values.end()));
    ipc.pids = strings_.keep_list(pids);
    return true;
}

Result<bool> IpcObjects::describe_queue(Ipc &ipc)
{
    constexpr int copy = 040000; // MSG_COPY
    msqid_ds status = {};
    if (msgctl(ipc.id, IPC_STAT, &status) != 0)
        return is_gone() ? Result<bool>(false) : unreadable(ipc);
    take_permissions(ipc, status.msg_perm);
    ipc.size = status.msg_qbytes;
    std::string bytes;
    const size_t room = status.__msg_cbytes; // no message is longer than all of them
    std::vector<long> buffer(1 + (room + sizeof(long) - 1) / sizeof(long) + 1);
    for (msgqnum_t i = 0; i < status.msg_qnum; i++) {
        const ssize_t n =
            msgrcv(ipc.id, buffer.data(), room, static_cast<long>(i), copy | IPC_NOWAIT);
        if (n < 0 && errno == ENOSYS)
            return Error(ENOSYS, what(ipc) + " holds messages, which this kernel does not show "
                                             "(CONFIG_CHECKPOINT_RESTORE)");
        if (n < 0)
            return unreadable(ipc);
        image::append_message(
            bytes, {static_cast<uint64_t>(buffer[0]),
                    {reinterpret_cast<const char *>(&buffer[1]), static_cast<size_t>(n)}});
    }
    if (!bytes.empty()) {
        ipc.object = objects_.take();
        messages_.push_back({ipc.object, image::ObjectKind::messages, std::move(bytes)});
    }
    return true;
}

Result<bool> IpcObjects::describe(const Key &key)
{
    if (all_.count(key) != 0)
        return true;
    Ipc ipc;
    ipc.kind = key.first;
    ipc.id = key.second;
    Result<bool> there = ipc.kind == IpcKind::segment      ? describe_segment(ipc)
                         : ipc.kind == IpcKind::semaphores ? describe_semaphores(ipc)
                                                           : describe_queue(ipc);
    if (there && *there)
        all_[key] = ipc;
    return there;
}

// Asks about every set that any process uses: a process that has executed another program no longer
// knows its earlier operations, but the kernel does.
void IpcObjects::look_undo(const image::Process &process, AgentSession &session, Problems &problems)
{
    for (const auto &[key, ipc] : all_) {
        if (ipc.kind != IpcKind::semaphores || (ipc.flags & image::kIpcOperated) == 0)
            continue;
        Result<void> told = describe_undo(ipc, process, session);
        const bool needed = undoes_.count({static_cast<pid_t>(process.pid), ipc.id}) != 0;
        if (!told &&
            (needed || (told.error().code() != EOPNOTSUPP && told.error().code() != EACCES)))
            problems.add(fmt::format("{}: operations to be undone (SEM_UNDO): {}", what(ipc),
                                     told.error().text()),
                         "do without SEM_UNDO, or remove the set before the checkpoint");
    }
}

// The list that a child shares with its parent (CLONE_SYSVSEM) is that of the first of its sharers.
// Others are refused: restored, each would have its own.
Result<void> IpcObjects::describe_undo(const Ipc &ipc, const image::Process &process,
                                       AgentSession &session)
{
    Result<std::vector<int16_t>> amounts = session.facts().undo(ipc.id, ipc.size);
    if (!amounts)
        return amounts.error();
    std::vector<uint32_t> numbers;
    std::vector<uint32_t> additions;
    for (size_t i = 0; i < amounts->size(); i++) {
        if ((*amounts)[i] == 0)
            continue;
        numbers.push_back(static_cast<uint32_t>(i));
        additions.push_back(static_cast<uint16_t>((*amounts)[i]));
    }
    if (numbers.empty())
        return {};
    for (const SemaphoreUndo &other : undo_) {
        if (other.id != ipc.id)
            continue;
        const long order = syscall(SYS_kcmp, process.pid, other.pid, KCMP_SYSVSEM, 0, 0);
        if (order < 0)
            return Error::from_errno(
                fmt::format("whether process {} shares them: kcmp(2)", other.pid), errno);
        if (order == 0 && (process.shares & CLONE_SYSVSEM) != 0)
            return {};
        if (order == 0)
            return Error(EXDEV, fmt::format("process {} shares them (CLONE_SYSVSEM)", other.pid));
    }
    undo_.push_back(
        {ipc.id, process.pid, strings_.keep_list(numbers), strings_.keep_list(additions)});
    return {};
}

void IpcObjects::look(const Proc &proc, const std::vector<agent::IpcUse> &uses,
                      const AddressSpace &space, Problems &problems)
{
    std::map<Key, bool> used; // whether it has operations to undo
    for (const agent::IpcUse &use : uses) {
        const Key key(static_cast<IpcKind>(use.kind), use.id);
        used[key] = used[key] || use.undo != 0;
    }
    for (const Mapping &m : space.mappings) {
        if (m.kind == image::RegionKind::sysv_shm)
            used.emplace(Key(IpcKind::segment, static_cast<int>(m.inode)), false);
    }
    if (used.empty())
        return;
    const Result<std::string> theirs = proc.link("ns/ipc");
    const Result<std::string> ours = Proc(getpid()).link("ns/ipc");
    if (theirs && ours && *theirs != *ours) {
        problems.add("System V objects in another IPC namespace",
                     "cr_checkpoint must run in that namespace");
        return;
    }
    for (const auto &[key, undo] : used) {
        Result<bool> there = describe(key);
        if (!there)
            problems.add(there.error().text(), "remove it before the checkpoint, or let root save");
        else if (*there && undo)
            undoes_.emplace(proc.pid(), key.second);
    }
}

uint32_t IpcObjects::object_of(uint64_t segment) const
{
    const auto found = all_.find({IpcKind::segment, static_cast<int>(segment)});
    return found != all_.end() ? found->second.object : 0;
}

Result<void> IpcObjects::save_contents(image::ImageWriter &writer) const
{
    for (const auto &[key, ipc] : all_) {
        if (ipc.kind != IpcKind::segment)
            continue;
        image::Object object;
        object.id = ipc.object;
        object.kind = image::ObjectKind::shared_memory;
        object.size = ipc.size;
        Result<void> saved = writer.add(object);
        if (saved)
            saved = save_segment(ipc, writer);
        if (!saved)
            return saved;
    }
    for (const CopiedContents &copy : messages_) {
        if (Result<void> saved = save_copied(copy, writer); !saved)
            return saved;
    }
    return {};
}

Result<void> IpcObjects::write_records(image::ImageWriter &writer) const
{
    for (const auto &[key, ipc] : all_) {
        if (Result<void> added = writer.add(ipc); !added)
            return added;
    }
    for (const SemaphoreUndo &undo : undo_) {
        if (Result<void> added = writer.add(undo); !added)
            return added;
    }
    return {};
}

} // namespace cryo::capture
