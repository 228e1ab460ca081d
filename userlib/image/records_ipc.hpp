// SPDX-License-Identifier: Apache-2.0
//
// What an image says about System V objects and POSIX message queues. They belong to no process:
// each is in the first image of a tree, once. Include records.hpp, which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

enum class IpcKind : uint32_t {
    segment = 1,    // shared memory
    semaphores = 2, // a set of them
    queue = 3,      // of messages
};

// Bits of Ipc::flags.
inline constexpr uint32_t kIpcRemoved = 1;  // a segment that lives on while it is attached
inline constexpr uint32_t kIpcLocked = 2;   // a segment locked in memory (SHM_LOCK)
inline constexpr uint32_t kIpcOperated = 4; // semaphores: there was an operation (sem_otime)

struct Ipc {
    static constexpr RecordType type = RecordType::ipc;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    IpcKind kind = IpcKind{};
    int32_t id = 0;
    uint32_t key = 0;  // 0: IPC_PRIVATE, or removed
    uint32_t mode = 0; // permission bits
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t creator_uid = 0;
    uint32_t creator_gid = 0;
    uint32_t flags = 0;
    uint64_t size = 0;   // bytes of a segment, bytes that a queue may hold, semaphores in a set
    uint32_t object = 0; // contents of a segment; a queue's messages (messages.hpp); 0: none
    List<uint32_t> values = {}; // of each semaphore
    List<uint32_t> pids = {};   // process that changed it last

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("kind", s.kind);
        v("id", s.id);
        v("key", s.key, Show::hex);
        v("mode", s.mode, Show::octal);
        v("uid", s.uid);
        v("gid", s.gid);
        v("creator_uid", s.creator_uid);
        v("creator_gid", s.creator_gid);
        v("flags", s.flags, Show::hex);
        v("size", s.size);
        v("object", s.object);
        v("values", s.values);
        v("pids", s.pids);
    }
};

// The changes that the kernel makes to semaphores of a set when a process ends (SEM_UNDO).
struct SemaphoreUndo {
    static constexpr RecordType type = RecordType::semaphore_undo;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    int32_t id = 0;                // of the set, an IPC
    uint32_t pid = 0;              // the process
    List<uint32_t> numbers = {};   // semaphores
    List<uint32_t> additions = {}; // what is added to the value of each, as an int16_t

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("id", s.id);
        v("pid", s.pid);
        v("numbers", s.numbers);
        v("additions", s.additions);
    }
};

// A POSIX message queue; its FILE has the name, owner and permissions.
struct PosixQueue {
    static constexpr RecordType type = RecordType::posix_queue;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t file = 0; // FILE id
    uint64_t max_messages = 0;
    uint64_t max_bytes = 0; // of a message
    uint32_t object = 0;    // messages (messages.hpp; the type is the priority); 0: none
    uint64_t size = 0;      // of the object

    static constexpr uint32_t PosixQueue::*key = &PosixQueue::file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("file", s.file);
        v("max_messages", s.max_messages);
        v("max_bytes", s.max_bytes);
        v("object", s.object);
        v("size", s.size);
    }
};

} // namespace cryo::image
