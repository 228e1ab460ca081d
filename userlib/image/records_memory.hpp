// SPDX-License-Identifier: Apache-2.0
//
// What an image says about memory: the address space, its regions, and the objects that have pages.
// Include records.hpp, which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

// The address space as a whole: the mm fields that /proc shows and prctl(PR_SET_MM) sets.
struct Memory {
    static constexpr RecordType type = RecordType::memory;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t object = 0; // object that holds its pages: page number = address / 4096
    uint64_t start_code = 0;
    uint64_t end_code = 0;
    uint64_t start_data = 0;
    uint64_t end_data = 0;
    uint64_t start_brk = 0;
    uint64_t brk = 0;
    uint64_t start_stack = 0;
    uint64_t arg_start = 0;
    uint64_t arg_end = 0;
    uint64_t env_start = 0;
    uint64_t env_end = 0;
    uint64_t vdso_start = 0;
    uint64_t vdso_size = 0;
    uint64_t vvar_start = 0;
    uint64_t vvar_size = 0;
    uint64_t task_size = 0; // first address beyond user space
    uint32_t mlockall = 0;  // MCL_ bits

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("object", s.object);
        v("start_code", s.start_code, Show::hex);
        v("end_code", s.end_code, Show::hex);
        v("start_data", s.start_data, Show::hex);
        v("end_data", s.end_data, Show::hex);
        v("start_brk", s.start_brk, Show::hex);
        v("brk", s.brk, Show::hex);
        v("start_stack", s.start_stack, Show::hex);
        v("arg_start", s.arg_start, Show::hex);
        v("arg_end", s.arg_end, Show::hex);
        v("env_start", s.env_start, Show::hex);
        v("env_end", s.env_end, Show::hex);
        v("vdso_start", s.vdso_start, Show::hex);
        v("vdso_size", s.vdso_size, Show::hex);
        v("vvar_start", s.vvar_start, Show::hex);
        v("vvar_size", s.vvar_size, Show::hex);
        v("task_size", s.task_size, Show::hex);
        v("mlockall", s.mlockall, Show::hex);
    }
};

enum class RegionKind : uint32_t {
    anonymous = 0,
    heap = 1,
    stack = 2,
    private_file = 3,
    shared_file = 4,
    shared_anonymous = 5,
    memfd = 6,
    sysv_shm = 7,
    hugetlb = 8,
    vdso = 9,
    vvar = 10,
    device = 11,
};

// Bits of Region::flags.
inline constexpr uint32_t kRegionShared = 1;
inline constexpr uint32_t kRegionGrowsDown = 2;
inline constexpr uint32_t kRegionNoReserve = 4;
inline constexpr uint32_t kRegionLocked = 8;
inline constexpr uint32_t kRegionLockOnFault = 16;
inline constexpr uint32_t kRegionDontFork = 32;
inline constexpr uint32_t kRegionWipeOnFork = 64;
inline constexpr uint32_t kRegionDontDump = 128;
inline constexpr uint32_t kRegionHugePages = 256;
inline constexpr uint32_t kRegionNoHugePages = 512;
inline constexpr uint32_t kRegionSequential = 1024;
inline constexpr uint32_t kRegionRandom = 2048;
inline constexpr uint32_t kRegionMergeable = 4096;
inline constexpr uint32_t kRegionAllSaved = 8192;   // every page's contents are in the image
inline constexpr uint32_t kRegionSealed = 16384;    // mseal(2)
inline constexpr uint32_t kRegionReadOnly = 32768;  // SHM_RDONLY: can never be made writable
inline constexpr uint32_t kRegionDroppable = 65536; // MAP_DROPPABLE

// One mapping, in ascending order of addresses.
struct Region {
    static constexpr RecordType type = RecordType::region;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint64_t start = 0;
    uint64_t end = 0;
    uint32_t prot = 0;     // PROT_ bits
    uint32_t max_prot = 0; // PROT_ bits it may be given
    RegionKind kind = RegionKind{};
    uint32_t flags = 0;
    // object with its contents: the address space, or that of shared memory or a file
    uint32_t object = 0;
    uint64_t object_page = 0; // page of that object that is mapped at start
    uint32_t file = 0;        // FILE id; 0: none
    uint64_t file_offset = 0;
    std::string_view name = {};  // of anonymous memory, as /proc shows it
    uint64_t huge_page_size = 0; // of hugetlb; else 0
    uint32_t protection_key = 0;
    uint32_t numa_mode = 0;
    Bytes numa_nodes = {};
    uint64_t present = 0; // pages with contents at the cut
    uint64_t written = 0; // pages that differ from the backing
    uint64_t saved = 0;   // pages in this image

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("start", s.start, Show::hex);
        v("end", s.end, Show::hex);
        v("prot", s.prot, Show::hex);
        v("max_prot", s.max_prot, Show::hex);
        v("kind", s.kind);
        v("flags", s.flags, Show::hex);
        v("object", s.object);
        v("object_page", s.object_page);
        v("file", s.file);
        v("file_offset", s.file_offset, Show::hex);
        v("name", s.name);
        v("huge_page_size", s.huge_page_size);
        v("protection_key", s.protection_key);
        v("numa_mode", s.numa_mode);
        v("numa_nodes", s.numa_nodes);
        v("present", s.present);
        v("written", s.written);
        v("saved", s.saved);
    }
};

// Pages of a region that must not be touched, by MADV_GUARD_INSTALL.
struct Guard {
    static constexpr RecordType type = RecordType::guard;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint64_t start = 0;
    uint64_t end = 0;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("start", s.start, Show::hex);
        v("end", s.end, Show::hex);
    }
};

// A context of asynchronous I/O without requests under way. Its ring is no region: the kernel maps
// and fills it.
struct AioContext {
    static constexpr RecordType type = RecordType::aio_context;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint64_t start = 0; // of the ring, which is the context's id
    uint64_t end = 0;
    uint32_t flags = 0;         // as of a Region
    uint32_t head = 0;          // slots of the ring: the first event that nobody has fetched,
    uint32_t tail = 0;          // and the first free slot
    List<uint64_t> events = {}; // from head to tail: data, object and two results of each

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("start", s.start, Show::hex);
        v("end", s.end, Show::hex);
        v("flags", s.flags, Show::hex);
        v("head", s.head);
        v("tail", s.tail);
        v("events", s.events);
    }
};

enum class ObjectKind : uint32_t {
    address_space = 0,
    file_contents = 1,
    shared_memory = 2,
    pipe_contents = 3,
    attachment = 4,
    terminal_queue = 5,
    socket_queue = 6,
    signature = 7,
    messages = 8,
};

// Anything that has pages. The size is in bytes, as the last page may be partial.
struct Object {
    static constexpr RecordType type = RecordType::object;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t id = 0;
    ObjectKind kind = ObjectKind{};
    uint64_t size = 0;
    std::string_view name = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("id", s.id);
        v("kind", s.kind);
        v("size", s.size);
        v("name", s.name);
    }
};

// Digests of the pages that this image itself holds, so that the next image can leave out unchanged
// ones: in `object`, for each page a u64 number and 16 bytes of XXH3-128, ascending. Pages that
// are zero, or as the base has them, are not in it. Nothing here is needed to restart.
struct PageDigests {
    static constexpr RecordType type = RecordType::page_digests;
    static constexpr uint16_t version = 1;
    static constexpr bool required = false;

    uint32_t object = 0;
    uint32_t of = 0; // the object whose pages these are
    uint64_t count = 0;
    uint64_t pages = 0;                 // of the address space, in this image and its bases
    uint64_t changed_to_base = 0;       // pages that it has, or would have, as a delta to the base,
    uint64_t changed_to_previous = 0;   // and to the image taken before
    std::array<uint8_t, 16> previous{}; // id of the image taken before; zero: none

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("object", s.object);
        v("of", s.of);
        v("count", s.count);
        v("pages", s.pages);
        v("changed_to_base", s.changed_to_base);
        v("changed_to_previous", s.changed_to_previous);
        v("previous", s.previous);
    }
};

// How changed pages were found. Nothing here is needed to restart.
struct PageTracker {
    static constexpr RecordType type = RecordType::page_tracker;
    static constexpr uint16_t version = 3;
    static constexpr bool required = false;

    std::string_view tracker = {};   // hashing, userfaultfd, soft-dirty, module
    std::array<uint8_t, 16> token{}; // of the tracking since this image; zero: none
    uint64_t clean = 0;              // pages that were not read
    uint64_t read = 0;               // pages that were, to be compared by their digests
    uint64_t audited = 0;            // clean ones that were read and compared nevertheless
    List<uint64_t> unsure = {};      // version 2: start and end of ranges that the next image reads
    uint64_t mark = 0;               // version 3: address of the token in the program; 0: none

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("tracker", s.tracker);
        v("token", s.token);
        v("clean", s.clean);
        v("read", s.read);
        v("audited", s.audited);
        v("unsure", s.unsure);
        v("mark", s.mark, Show::hex);
    }
};

// A file that is stored in the image unchanged: an image of another checkpointer, or the state that
// a program saved by itself.
struct Attachment {
    static constexpr RecordType type = RecordType::attachment;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::string_view name = {};
    uint32_t object = 0;
    uint64_t size = 0;
    uint32_t mode = 0;
    std::string_view format = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("name", s.name);
        v("object", s.object);
        v("size", s.size);
        v("mode", s.mode, Show::octal);
        v("format", s.format);
    }
};

} // namespace cryo::image
