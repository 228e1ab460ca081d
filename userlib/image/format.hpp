// SPDX-License-Identifier: Apache-2.0
//
// The numbers of the image format: magics, limits, record types, flags. docs/image-format.md is
// the specification; this file is the same in C++. It depends only on the language and the
// size of a page, so that the async-signal-safe feed can use it too.
//
//     if (prefix.type == RecordType::thread) ...
#pragma once

#include "sys/page.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace cryo::image {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;

// Bytes 0x89 and CR LF SUB LF betray a transfer that changed text, as in PNG.
inline constexpr uint8_t kHeaderMagic[8] = {0x89, 'C', 'R', 'Y', 'O', '\r', '\n', 0x1a};
inline constexpr uint8_t kFooterMagic[8] = {'C', 'R', 'Y', 'O', 'D', 'O', 'N', 'E'};

inline constexpr uint16_t kFormatVersion = 1;
inline constexpr uint16_t kOldestReader = 1;   // the oldest reader that understands what we write
inline constexpr uint16_t kMachineX86_64 = 62; // ELF's EM_X86_64

inline constexpr size_t kPageSize = sys::page_size;
inline constexpr size_t kHeaderSize = kPageSize;
inline constexpr size_t kFooterSize = kPageSize;
inline constexpr size_t kPrefixSize = 24;                // in front of every record
inline constexpr size_t kMaxRecord = 512 * 1024;         // payload of anything but a segment
inline constexpr uint32_t kMinPackageBlocks = 4;         // 16 KiB
inline constexpr uint32_t kMaxPackageBlocks = 64;        // 256 KiB
inline constexpr size_t kSegmentData = kPageSize * 1024; // raw bytes that one segment holds at most
inline constexpr size_t kWideSegmentData = 64 << 20;     // likewise, of a wide segment
inline constexpr size_t kMaxSegmentExtents = 1536;
inline constexpr size_t kMaxSegmentHead = 64 * 1024; // prefix, tables and padding of a segment
inline constexpr size_t kMaxSegmentPackages = 256;
inline constexpr uint16_t kWideSegmentVersion = 2;   // of the record SEGMENT
inline constexpr uint16_t kPackedSegmentVersion = 3; // of SEGMENT with packed tables
inline constexpr uint16_t kPackedIndexVersion = 2;   // of INDEX_PART with packed tables
inline constexpr unsigned kMaxDeltaDepth = 256;      // images in a chain of bases
inline constexpr uint64_t kMaxPage = uint64_t(1) << 52;

// What an image holds.
enum class Role : uint16_t {
    process = 0, // one process
    tree = 1,    // the members of an archive or a directory, and how they are related
    file = 2,    // a version of one file of any kind, its signature, or a list of versions
};

enum class Codec : uint8_t {
    raw = 0,
    lz4 = 1,
    zstd = 2,
    shuffle_lz4 = 3, // bytes of 8-byte words transposed, then lz4
};
inline constexpr unsigned kCodecCount = 4;

// Where the contents of a run of pages come from. A page without an extent takes them from its
// region's backing: zero for anonymous memory, the file's contents for a file mapping.
enum class ExtentKind : uint32_t {
    data = 1, // blocks of this image
    zero = 2, // all bytes zero, whatever the backing says
    base = 3, // pages of the same object in the base image
};

// Flags of a record.
inline constexpr uint16_t kRequired = 1;        // a reader that does not know the type must refuse
inline constexpr uint16_t kRequiredVersion = 2; // likewise, if it does not know the version

// Numbers are never reused. Up to 15: the structure of the file; from 16: what was saved.
enum class RecordType : uint32_t {
    segment = 1,
    index_part = 2,
    directory = 3,
    padding = 4,
    footer = 5,

    image_info = 16,
    process = 17,
    memory = 18,
    args = 19,
    environ = 20,
    auxv = 21,
    thread = 22,
    region = 23,
    file = 24,
    open_file = 25,
    descriptor = 26,
    sigaction = 27,
    pending_signal = 28,
    timer = 29,
    pipe = 30,
    eventfd = 31,
    signalfd = 32,
    epoll_item = 33,
    inotify_watch = 34,
    lock = 35,
    rlimit = 36,
    cpu = 37,
    notice = 38,
    socket = 39,
    terminal = 40,
    object = 41,
    attachment = 42,
    tree = 43,
    member = 44,
    agent = 45,
    page_digests = 46,
    foreign = 47,
    ipc = 48,
    guard = 49,
    posix_queue = 50,
    page_tracker = 51,
    passed = 52,
    senders = 54,
    connection = 55,
    waiting = 56,
    semaphore_undo = 57,
    pidfd = 58,
    aio_context = 59,
    socket_more = 60,
    group_member = 61,
    peer_credentials = 62,
    kept_connection = 63,

    // Files, of any kind, in versions.
    delta = 64,
    delta_service = 65,
    delta_version = 66,

    call_filter = 67,
    thread_filters = 68,
};

// Features that a reader must know to read the image at all (header, `features`). None so far.
inline constexpr uint64_t kKnownFeatures = 0;

// Hints (header, `hints`).
inline constexpr uint64_t kHintMember =
    1; // one of several images in an archive, not complete alone
// The base is the image of the parent that the process was forked by, beside it in the archive.
inline constexpr uint64_t kHintOfFork = 2;

} // namespace cryo::image
