// SPDX-License-Identifier: Apache-2.0
#include "image/records.hpp"

namespace cryo::image {

namespace {

// Names by number; an enumeration is dense from 0.
template <class E, size_t N>
const char *pick(const char *const (&names)[N], E value)
{
    auto i = static_cast<size_t>(value);
    return i < N ? names[i] : "unknown";
}

} // namespace

uint16_t known_version(RecordType type)
{
    if (type == RecordType::segment)
        return kPackedSegmentVersion;
    if (type == RecordType::index_part)
        return kPackedIndexVersion;
    if (type > RecordType::index_part && type <= RecordType::footer)
        return 1;
    uint16_t version = 0;
    with_record_type(type, [&]<class R>() { version = R::version; });
    return version;
}

const char *name_of(RecordType type)
{
    // clang-format off
    static constexpr const char *names[] = {
        "SEGMENT", "INDEX_PART", "DIRECTORY", "PADDING", "FOOTER", nullptr,
        nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
        nullptr, nullptr, nullptr, "IMAGE_INFO", "PROCESS", "MEMORY",
        "ARGS", "ENVIRON", "AUXV", "THREAD", "REGION", "FILE",
        "OPEN_FILE", "DESCRIPTOR", "SIGACTION", "PENDING_SIGNAL", "TIMER", "PIPE",
        "EVENTFD", "SIGNALFD", "EPOLL_ITEM", "INOTIFY_WATCH", "LOCK", "RLIMIT",
        "CPU", "NOTICE", "SOCKET", "TERMINAL", "OBJECT", "ATTACHMENT",
        "TREE", "MEMBER", "AGENT", "PAGE_DIGESTS", "FOREIGN", "IPC",
        "GUARD", "POSIX_QUEUE", "PAGE_TRACKER", "PASSED", nullptr, "SENDERS",
        "CONNECTION", "WAITING", "SEMAPHORE_UNDO", "PIDFD", "AIO_CONTEXT", "SOCKET_MORE",
        "GROUP_MEMBER", "PEER_CREDENTIALS", "KEPT_CONNECTION"};
    // clang-format on
    static constexpr const char *later_names[] = {"DELTA", "DELTA_SERVICE", "DELTA_VERSION",
                                                  "CALL_FILTER", "THREAD_FILTERS"};
    size_t i = static_cast<size_t>(type) - 1;
    if (type >= RecordType::delta && type <= RecordType::thread_filters)
        return later_names[static_cast<size_t>(type) - static_cast<size_t>(RecordType::delta)];
    return i < std::size(names) ? names[i] : nullptr;
}

const char *name_of(Codec codec)
{
    return pick({"raw", "lz4", "zstd", "shuffle+lz4"}, codec);
}

const char *name_of(ExtentKind kind)
{
    return pick({"unknown", "data", "zero", "base"}, kind);
}

const char *name_of(RegisterLayout layout)
{
    return pick({"none", "x86-64 signal frame", "x86-64 user registers", "x86-64 parked"}, layout);
}

const char *name_of(SyscallRestart restart)
{
    return pick({"none", "again", "adjusted", "eintr"}, restart);
}

const char *name_of(TimerKind kind)
{
    return pick({"ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF", "posix", "timerfd"}, kind);
}

const char *name_of(RegionKind kind)
{
    return pick({"anonymous", "heap", "stack", "private file", "shared file", "shared anonymous",
                 "memfd", "SysV shm", "hugetlb", "vdso", "vvar", "device"},
                kind);
}

const char *name_of(FileKind kind)
{
    for (const ShownKind &one : kShownKinds) {
        if (one.kind == kind)
            return one.name;
    }
    return "unknown";
}

const char *name_of(LockKind kind)
{
    return pick({"posix", "open file", "flock", "lease"}, kind);
}

const char *name_of(SocketState state)
{
    return pick({"fresh", "bound", "listening", "connected datagram", "pair", "closed", "kept"},
                state);
}

const char *name_of(ObjectKind kind)
{
    return pick({"address space", "file contents", "shared memory", "pipe contents", "attachment",
                 "terminal queue", "socket queue", "signature", "messages"},
                kind);
}

const char *name_of(IpcKind kind)
{
    return pick({"unknown", "segment", "semaphores", "queue"}, kind);
}

const char *name_of(Scope scope)
{
    return pick({"process", "tree", "group", "session"}, scope);
}

const char *name_of(MemberState state)
{
    return pick({"saved", "zombie", "omitted"}, state);
}

const char *name_of(DeltaBase base)
{
    return pick({"none", "image", "file"}, base);
}

const char *name_of(DeltaMode mode)
{
    return pick({"adaptive", "incremental", "differential"}, mode);
}

const char *name_of(DeltaState state)
{
    return pick({"kept", "superseded", "removed"}, state);
}

} // namespace cryo::image
