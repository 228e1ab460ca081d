// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/early_copy.hpp"

#include "capture/memory/tracker.hpp"
#include "capture/memory/userfaultfd.hpp"
#include "look/members.hpp"
#include "look/memory_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace cryo::capture {

using agent::TrackerMark;

namespace {

constexpr uint64_t page = image::kPageSize;
// Less than this is copied in the stop just as quickly.
constexpr uint64_t least = 64 * page;
// Limits for one call.
constexpr size_t most_at_once = 512, most_bytes_at_once = 1 << 20;

// The part of the reads that the agent made to stop the program.
uint64_t agents_reads(const Fd &memory, RemoteAddress address)
{
    TrackerMark mark = {};
    const bool counted =
        read_at(memory, address, &mark, sizeof(mark)) && mark.has_reads == agent::reads_counted;
    return counted ? mark.reads : 0;
}

// Whether a thread of the program is in process_vm_writev, perhaps on its own memory. As with other
// processes (may_write_to_others), the pages that it writes to may have been looked up before they
// were protected. A call that begins later is no danger.
bool writes_to_itself(const Fd &memory, RemoteAddress address)
{
    TrackerMark mark = {};
    return read_at(memory, address, &mark, sizeof(mark)) &&
           mark.has_writes == agent::writes_counted && mark.writes != 0;
}

// Finished calls of read(2) and the like, by all threads that ever existed.
std::optional<uint64_t> ended_reads(const Proc &proc)
{
    const Result<std::string> io = proc.read("io");
    std::string_view count = io ? field(*io, "syscr") : std::string_view();
    if (count.empty())
        return std::nullopt;
    return take_number(count);
}

// Whether a read from this file writes to memory through the program's page tables.
bool is_plain(std::string_view file)
{
    constexpr std::array<std::string_view, 8> plain = {
        "pipe:",          "/dev/pts/",          "/dev/tty",           "/dev/null",
        "anon_inode:[ev", "anon_inode:[timerf", "anon_inode:[signal", "anon_inode:inotify"};
    return std::ranges::any_of(plain, [&](auto name) { return file.starts_with(name); });
}

// Threads blocked in such a read: each finishes it before it can be stopped.
uint64_t waiting_reads(const Proc &proc)
{
    uint64_t found = 0;
    const Result<std::vector<int>> threads = proc.numbers("task");
    for (const int thread : threads ? *threads : std::vector<int>()) {
        const Result<std::string> call = proc.read("task/" + std::to_string(thread) + "/syscall");
        std::string_view text = call ? *call : std::string_view();
        // A kernel thread reports the system call in which it was created.
        if (const Result<Relation> now = relation_of(thread); !now || now->of_kernel)
            continue;
        if (text.empty() || text[0] < '0' || text[0] > '9')
            continue; // it is running
        const uint64_t number = take_number(text);
        if ((number != SYS_read && number != SYS_readv) || !text.starts_with("0x"))
            continue;
        text.remove_prefix(2);
        const uint64_t descriptor = take_number(text, 16);
        const Result<std::string> file = proc.link("fd/" + std::to_string(descriptor));
        found += file && is_plain(*file) ? 1 : 0;
    }
    return found;
}

// Whether a thread may be in process_vm_writev on another process: the kernel first looks up the
// pages, which marks them as written, and writes to them later. For a running thread /proc does not
// tell, so it counts.
bool may_write_to_others(const std::vector<pid_t> &pids)
{
    for (const pid_t pid : pids) {
        const Proc proc(pid);
        const Result<std::vector<int>> threads = proc.numbers("task");
        for (const int thread : threads ? *threads : std::vector<int>()) {
            const Result<std::string> call =
                proc.read("task/" + std::to_string(thread) + "/syscall");
            if (!call)
                return true;
            std::string_view text = *call;
            if (text.starts_with("-1 "))
                continue; // asleep, and not in a system call
            if (text.empty() || text[0] < '0' || text[0] > '9' ||
                take_number(text) == SYS_process_vm_writev)
                return true;
        }
    }
    return false;
}

struct Others {
    unsigned uffds = 0;
    bool rings = false;
};

Result<Others> others_of(const Proc &proc)
{
    Result<std::vector<int>> descriptors = proc.numbers("fd");
    if (!descriptors)
        return descriptors.error();
    Others found;
    for (const int descriptor : *descriptors) {
        const Result<std::string> file = proc.link("fd/" + std::to_string(descriptor));
        if (!file)
            continue; // it has been closed
        found.uffds += *file == "anon_inode:[userfaultfd]" ? 1 : 0;
        found.rings = found.rings || *file == "anon_inode:[io_uring]";
    }
    return found;
}

} // namespace

// Replaces the token first, because pages protected now are not reported a second time. The old
// token, known from an image, proves that this is the agent's memory; holding the program's turn
// guarantees that no other checkpoint uses it.
bool EarlyCopy::begin(const Proc &proc, const DeltaPlan::Base &base)
{
    constexpr std::array<uint8_t, 16> nothing{};
    if (!kernel_is_at_least(6, 10) || has_pinned(proc))
        return false;
    Result<Fd> memory = proc.open("mem", O_RDWR | O_CLOEXEC);
    if (!memory)
        return false;
    for (const DeltaPlan::Watched *watched : {&base.watched, &base.previous_watched}) {
        TrackerMark mark = {};
        const RemoteAddress at(watched->mark);
        if (at == RemoteAddress() || watched->needs_copy || watched->token == nothing ||
            !read_at(*memory, at, &mark, sizeof(mark)) ||
            memcmp(mark.token, watched->token.data(), sizeof(mark.token)) != 0)
            continue;
        of_previous_ = watched == &base.previous_watched;
        mark_ = at;
        changes_ = mark.changes;
        break;
    }
    if (mark_ == RemoteAddress() ||
        getrandom(token_.data(), token_.size(), 0) != ssize_t(token_.size()) ||
        !write_at(*memory, mark_, token_.data(), token_.size())) {
        token_ = {};
        return false;
    }
    memory_ = std::move(*memory);
    return true;
}

// If protecting a mapping fails, some of its pages may be protected, so all count as changed.
void EarlyCopy::protect(const Proc &proc, const std::vector<Run> &mappings)
{
    Result<PageMap> map = PageMap::open(proc);
    if (!map)
        return;
    for (const Run &mapping : mappings) {
        Result<PageMap::Written> written = map->protect_written(mapping.start, mapping.end);
        if (!written) {
            changed_.push_back(mapping);
            continue;
        }
        changed_.insert(changed_.end(), written->all.begin(), written->all.end());
        own_.insert(own_.end(), written->own.begin(), written->own.end());
    }
}

// Reads many runs at once; if one of them fails, reads each by the descriptor. If the pid now
// belongs to another program, that program does not have our token.
bool EarlyCopy::read(pid_t pid, std::span<const Run> runs, std::span<char> to) const
{
    std::array<iovec, most_at_once> parts = {};
    for (size_t i = 0; i < runs.size(); i++)
        parts[i] = {reinterpret_cast<void *>(runs[i].start), runs[i].end - runs[i].start};
    const iovec all = {to.data(), to.size()};
    if (process_vm_readv(pid, &all, 1, parts.data(), runs.size(), 0) == ssize_t(to.size()))
        return true;
    for (const Run &run : runs) {
        const size_t size = run.end - run.start;
        if (!read_at(memory_, RemoteAddress(run.start), to.data(), size))
            return false;
        to = to.subspan(size);
    }
    return true;
}

namespace {

// The runs read by one call.
struct Group {
    std::span<const Run> runs;
    uint64_t bytes = 0;
    Stage::Space space;
    bool is_read = false;
};

// Uses a second thread if it pays off: most of the work is the kernel's, page by page.
template <class Do>
void do_all(std::vector<Group> &groups, const Do &one)
{
    constexpr size_t many = 4;
    std::atomic<size_t> next = 0;
    const auto work = [&] {
        for (size_t at = next++; at < groups.size(); at = next++)
            one(groups[at]);
    };
    std::future<void> other;
    if (groups.size() >= many && std::thread::hardware_concurrency() > 1) {
        try {
            other = std::async(std::launch::async, work);
        } catch (const std::system_error &) { // no more threads are allowed
        }
    }
    work();
    if (other.valid())
        other.get();
}

} // namespace

// A quarter of the room is kept for the stop.
void EarlyCopy::copy(const Proc &proc, Stage &stage)
{
    const uint64_t kept = stage.room() / 4;
    if (size_of(own_) > stage.room())
        return;
    std::vector<Group> groups;
    const auto begin = [&](const Run *first) {
        groups.push_back({.runs = {first, size_t(0)}, .space = {}});
    };
    uint64_t room = stage.room();
    for (const Run &run : own_) {
        const uint64_t bytes = run.end - run.start;
        if (room < kept + bytes)
            break;
        room -= bytes;
        if (groups.empty() || groups.back().bytes >= most_bytes_at_once ||
            groups.back().runs.size() == most_at_once)
            begin(&run);
        Group &group = groups.back();
        group.runs = {group.runs.data(), group.runs.size() + 1};
        group.bytes += bytes;
    }
    for (Group &group : groups)
        group.space = stage.space(group.bytes);
    const auto take = [&](Group &group) {
        if (group.space.bytes.size() != group.bytes ||
            !read(proc.pid(), group.runs, group.space.bytes))
            return;
        const image::Bytes bytes(reinterpret_cast<const uint8_t *>(group.space.bytes.data()),
                                 group.bytes);
        for (size_t i = 0; i < group.bytes / page; i++) // while it is in the cache
            group.space.digests[i] = digest_of_page(bytes.subspan(i * page, page));
        group.is_read = true;
    };
    do_all(groups, take);
    const auto put = [&](const Group &group) {
        stage.put(group.runs, group.space);
        copied_.insert(copied_.end(), group.runs.begin(), group.runs.end());
    };
    for (const Group &group : groups) {
        if (group.is_read) {
            put(group);
            continue;
        }
        // If one run of a group cannot be read, each run is read separately.
        for (const Run &run : group.runs) {
            Group alone = {.runs = {&run, 1}, .bytes = run.end - run.start, .space = {}};
            alone.space = stage.space(alone.bytes);
            take(alone);
            if (alone.is_read)
                put(alone);
        }
    }
}

EarlyCopy EarlyCopy::of(const Proc &proc, std::string_view smaps, const DeltaPlan::Base &base,
                        Stage &stage, const std::vector<pid_t> &saved_too)
{
    EarlyCopy early;
    const std::vector<Run> mappings = watched_mappings(smaps);
    Result<PageMap> map = PageMap::open(proc);
    if (mappings.empty() || stage.room() < least || !map)
        return early;
    uint64_t written = 0;
    for (const Run &mapping : mappings) {
        const Result<std::vector<Run>> runs = map->written(mapping.start, mapping.end);
        written += runs ? size_of(*runs) : 0;
    }
    early.uncopied_ = written;
    Result<Others> others = others_of(proc);
    if (written < least || !others || others->uffds != 1 || !early.begin(proc, base))
        return early;
    early.protect(proc, mappings);
    // Writes by the kernel past the page tables that began before the protection are either among
    // these reads, or end with a call that is counted.
    early.reads_ = ended_reads(proc);
    early.agents_reads_ = agents_reads(early.memory_, early.mark_);
    early.waiting_reads_ = waiting_reads(proc);
    others = others_of(proc);
    const Result<std::string> maps = proc.read("maps");
    if (!early.reads_ || !others || others->rings || has_pinned(proc) || !maps ||
        maps->find("/[aio]") != std::string::npos || writes_to_itself(early.memory_, early.mark_) ||
        may_write_to_others(saved_too))
        return early;
    early.copy(proc, stage);
    have_memory_for_lists(early.copied_.size());
    early.uncopied_ = written - std::min(written, size_of(early.copied_));
    return early;
}

bool EarlyCopy::is_of(const TrackerLink &link) const
{
    constexpr std::array<uint8_t, 16> nothing{};
    return token_ != nothing && link.token == token_ && RemoteAddress(link.mark) == mark_ &&
           link.changes == changes_;
}

void EarlyCopy::hold(const Proc &proc)
{
    const std::optional<uint64_t> reads = ended_reads(proc);
    const uint64_t own = agents_reads(memory_, mark_) - agents_reads_;
    held_ = reads_ && reads && *reads - *reads_ <= waiting_reads_ + own;
}

void EarlyCopy::add_to(const Run &mapping, PageMap::Written &written) const
{
    const std::vector<Run> changed = part_of(changed_, mapping);
    const std::vector<Run> as_then = common_part(part_of(own_, mapping), written.kept);
    written.kept = without(written.kept, changed);
    written.own = united(written.own, as_then);
    if (held_)
        written.copied = common_part(as_then, part_of(copied_, mapping));
}

} // namespace cryo::capture
