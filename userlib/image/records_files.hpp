// SPDX-License-Identifier: Apache-2.0
//
// What an image says about files, descriptors, and what they refer to. Include records.hpp, which
// has the whole list.
//
// Three levels, as in the kernel: a DESCRIPTOR is a number that points to an OPEN_FILE (one
// position, one set of flags, shared by dup and fork), which points to a FILE (what is opened).
// Regions and the executable point to a FILE directly. Ids are numbers of the image's own, from 1.
#pragma once

#include "image/file_kinds.hpp"
#include "image/record_codec.hpp"

namespace cryo::image {

// Bits of File::flags.
inline constexpr uint32_t kFileUnlinked = 1; // has no name any more
inline constexpr uint32_t kFileRenamed = 2;  // `path` is where it was found, not how it was opened
inline constexpr uint32_t kFileReadOnlyMount = 4;
inline constexpr uint32_t kFileContentsSaved = 8; // object holds them

// A file: what is opened, mapped or executed. A mapped file counts as the same at restart if its
// build id is, or without one its size and content hash.
struct File {
    static constexpr RecordType type = RecordType::file;
    static constexpr uint16_t version = 2;
    static constexpr bool required = true;

    uint32_t id = 0;
    FileKind kind = FileKind{};
    uint32_t flags = 0;
    std::string_view path = {};
    std::string_view link = {}; // target of a symlink; name of a memfd; another name of a FIFO
    uint64_t device = 0;
    uint64_t inode = 0;
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t links = 0;
    uint64_t size = 0;
    int64_t modified = 0;       // nanoseconds since the epoch
    uint64_t device_number = 0; // of a device node
    Bytes build_id = {};
    Bytes content_hash = {};     // XXH3-128 of the contents
    uint32_t object = 0;         // with the contents; 0: not saved
    uint32_t seals = 0;          // of a memfd
    uint64_t filesystem = 0;     // f_type of statfs
    uint64_t huge_page_size = 0; // of memory made of hugetlb pages; else 0

    static constexpr uint32_t File::*key = &File::id;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("id", s.id);
        v("kind", s.kind);
        v("flags", s.flags, Show::hex);
        v("path", s.path);
        v("link", s.link);
        v("device", s.device, Show::hex);
        v("inode", s.inode);
        v("mode", s.mode, Show::octal);
        v("uid", s.uid);
        v("gid", s.gid);
        v("links", s.links);
        v("size", s.size);
        v("modified", s.modified, Show::time);
        v("device_number", s.device_number, Show::hex);
        v("build_id", s.build_id);
        v("content_hash", s.content_hash);
        v("object", s.object);
        v("seals", s.seals, Show::hex);
        v("filesystem", s.filesystem, Show::hex);
        v("huge_page_size", s.huge_page_size);
    }
};

// An open file: position and flags, shared by all descriptors that were dup'ed.
struct OpenFile {
    static constexpr RecordType type = RecordType::open_file;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t id = 0;
    uint32_t file = 0;  // FILE id
    uint32_t flags = 0; // O_ bits
    uint64_t position = 0;
    int32_t owner = 0; // F_SETOWN
    uint32_t owner_type = 0;
    uint32_t owner_signal = 0; // F_SETSIG
    uint64_t shared_key = 0;   // equal in all members of a tree that share it; 0: not shared

    static constexpr uint32_t OpenFile::*key = &OpenFile::id;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("id", s.id);
        v("file", s.file);
        v("flags", s.flags, Show::octal);
        v("position", s.position);
        v("owner", s.owner);
        v("owner_type", s.owner_type);
        v("owner_signal", s.owner_signal);
        v("shared_key", s.shared_key, Show::hex);
    }
};

struct Descriptor {
    static constexpr RecordType type = RecordType::descriptor;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t fd = 0;
    uint32_t open_file = 0;
    bool close_on_exec = false;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("fd", s.fd);
        v("open_file", s.open_file);
        v("close_on_exec", s.close_on_exec);
    }
};

// A pipe or FIFO with its contents.
struct Pipe {
    static constexpr RecordType type = RecordType::pipe;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t file = 0; // FILE id
    uint64_t capacity = 0;
    uint32_t object = 0; // with the contents; 0: empty
    uint64_t size = 0;
    List<uint32_t> packets = {}; // sizes of packets, for O_DIRECT pipes
    // 0: both ends saved; 1: the reader, 2: the writer is outside the scope; 3, 4: likewise, and
    // that end comes back closed
    uint32_t outside = 0;

    static constexpr uint32_t Pipe::*key = &Pipe::file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("file", s.file);
        v("capacity", s.capacity);
        v("object", s.object);
        v("size", s.size);
        v("packets", s.packets);
        v("outside", s.outside);
    }
};

struct Eventfd {
    static constexpr RecordType type = RecordType::eventfd;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t open_file = 0;
    uint64_t count = 0;
    bool semaphore = false;

    static constexpr uint32_t Eventfd::*key = &Eventfd::open_file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("open_file", s.open_file);
        v("count", s.count);
        v("semaphore", s.semaphore);
    }
};

struct Signalfd {
    static constexpr RecordType type = RecordType::signalfd;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t open_file = 0;
    uint64_t mask = 0;

    static constexpr uint32_t Signalfd::*key = &Signalfd::open_file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("open_file", s.open_file);
        v("mask", s.mask, Show::hex);
    }
};

struct Pidfd {
    static constexpr RecordType type = RecordType::pidfd;
    static constexpr uint16_t version = 2;
    static constexpr bool required = true;

    uint32_t open_file = 0;
    uint32_t pid = 0; // of a member; 0: the process has ended and was waited for
    // Version 2. Which one that was: the same number in pidfds of the same process. 0: not known.
    uint64_t ended = 0;

    static constexpr uint32_t Pidfd::*key = &Pidfd::open_file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("open_file", s.open_file);
        v("pid", s.pid);
        v("ended", s.ended);
    }
};

// One registration in an epoll instance.
struct EpollItem {
    static constexpr RecordType type = RecordType::epoll_item;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t epoll = 0; // OPEN_FILE id of the instance
    uint32_t fd = 0;
    uint32_t open_file = 0; // what was registered
    uint32_t events = 0;
    uint64_t data = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("epoll", s.epoll);
        v("fd", s.fd);
        v("open_file", s.open_file);
        v("events", s.events, Show::hex);
        v("data", s.data, Show::hex);
    }
};

struct InotifyWatch {
    static constexpr RecordType type = RecordType::inotify_watch;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t open_file = 0;
    int32_t watch = 0;
    uint32_t mask = 0;
    std::string_view path = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("open_file", s.open_file);
        v("watch", s.watch);
        v("mask", s.mask, Show::hex);
        v("path", s.path);
    }
};

enum class LockKind : uint32_t {
    posix = 0,
    open_file = 1,
    flock = 2,
    lease = 3,
};

// A file lock that was held.
struct Lock {
    static constexpr RecordType type = RecordType::lock;
    static constexpr uint16_t version = 3;
    static constexpr bool required = true;

    LockKind kind = LockKind{};
    uint32_t file = 0;
    uint32_t open_file = 0; // 0 for posix
    uint32_t how = 0;       // F_RDLCK, F_WRLCK
    uint64_t start = 0;
    uint64_t length = 0; // 0: to the end
    uint32_t pid = 0;    // of posix: the process that holds it; 0: the image's own
    // Version 3. Of a lease that is being broken: 1 to one for reading, 2 to none.
    uint32_t broken = 0;

    bool needs_version() const { return broken != 0; }

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("kind", s.kind);
        v("file", s.file);
        v("open_file", s.open_file);
        v("how", s.how);
        v("start", s.start);
        v("length", s.length);
        v("pid", s.pid);
        v("broken", s.broken);
    }
};

// Modes of a terminal; for a pty made by the program, which one.
struct Terminal {
    static constexpr RecordType type = RecordType::terminal;
    static constexpr uint16_t version = 3;
    static constexpr bool required = true;

    uint32_t file = 0;
    uint32_t input = 0;
    uint32_t output = 0;
    uint32_t control = 0;
    uint32_t local = 0;
    uint32_t discipline = 0;
    Bytes characters = {};
    uint32_t input_speed = 0;
    uint32_t output_speed = 0;
    uint32_t rows = 0;
    uint32_t columns = 0;
    uint32_t pixel_width = 0;
    uint32_t pixel_height = 0;
    uint32_t pty_index = 0;
    bool locked = false;
    bool packet_mode = false;
    uint32_t foreground_pgid = 0;
    uint32_t session = 0;
    bool hung_up = false;  // version 2; of a master: its other end was opened and closed
    uint32_t to_slave = 0; // objects with unread data; 0: none
    uint64_t to_slave_size = 0;
    uint32_t to_master = 0;
    uint64_t to_master_size = 0;
    bool exclusive =
        false; // version 3; of a master: its other end, which root alone may open again

    static constexpr uint32_t Terminal::*key = &Terminal::file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("file", s.file);
        v("input", s.input, Show::hex);
        v("output", s.output, Show::hex);
        v("control", s.control, Show::hex);
        v("local", s.local, Show::hex);
        v("discipline", s.discipline);
        v("characters", s.characters);
        v("input_speed", s.input_speed);
        v("output_speed", s.output_speed);
        v("rows", s.rows);
        v("columns", s.columns);
        v("pixel_width", s.pixel_width);
        v("pixel_height", s.pixel_height);
        v("pty_index", s.pty_index);
        v("locked", s.locked);
        v("packet_mode", s.packet_mode);
        v("foreground_pgid", s.foreground_pgid);
        v("session", s.session);
        v("hung_up", s.hung_up);
        v("to_slave", s.to_slave);
        v("to_slave_size", s.to_slave_size);
        v("to_master", s.to_master);
        v("to_master_size", s.to_master_size);
        v("exclusive", s.exclusive);
    }
};

} // namespace cryo::image
