// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/stage.hpp"

#include "capture/session/session.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cryo::capture {

namespace {
constexpr uint64_t page = image::kPageSize;
} // namespace

std::optional<Stage> Stage::make(uint64_t bytes)
{
    rlimit limit = {};
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < bytes)
        return std::nullopt; // SIGXFSZ would kill us
    Fd file(memfd_create("cryo stage", MFD_CLOEXEC));
    if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
        return std::nullopt;
    return Stage(std::move(file), bytes);
}

bool Stage::provide(uint64_t bytes)
{
    bytes = std::min(bytes, room());
    return bytes == 0 ||
           fallocate(file_.get(), 0, static_cast<off_t>(in_file_), static_cast<off_t>(bytes)) == 0;
}

Result<void> Stage::take(AgentSession &session, const std::vector<Run> &runs)
{
    if (size_of(runs) > room())
        return Error(ENOSPC, "more pages have changed than may be copied in the stop");
    if (Result<void> copied = session.memory().stage(file_.get(), in_file_, runs); !copied)
        return copied;
    for (const Run &run : runs) {
        pieces_.push_back({run, in_file_, false});
        in_file_ += run.end - run.start;
        used_ += run.end - run.start;
    }
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece &a, const Piece &b) { return a.run.start < b.run.start; });
    return {};
}

void Unmap::operator()(char *memory) const
{
    munmap(memory, size);
}

Stage::Space Stage::space(uint64_t bytes)
{
    if (!memory_) {
        void *begin = mmap(nullptr, room_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin == MAP_FAILED)
            return {};
        madvise(begin, room_, MADV_HUGEPAGE); // if available
        memory_ = {static_cast<char *>(begin), Unmap{room_}};
        digests_.reserve(room_ / page); // so that they never move
    }
    if (bytes > room())
        return {};
    const uint64_t at = in_memory_;
    in_memory_ += bytes;
    used_ += bytes;
    digests_.resize(in_memory_ / page);
    return {{memory_.get() + at, bytes}, std::span(digests_).subspan(at / page, bytes / page)};
}

void Stage::put(std::span<const Run> runs, const Space &space)
{
    auto at = static_cast<uint64_t>(space.bytes.data() - memory_.get());
    for (const Run &run : runs) {
        pieces_.push_back({run, at, true});
        at += run.end - run.start;
    }
}

void Stage::keep(const std::vector<Run> &runs)
{
    std::vector<Piece> kept;
    auto run = runs.begin();
    for (const Piece &piece : pieces_) {
        while (run != runs.end() && run->end <= piece.run.start)
            ++run;
        for (auto in = run; in != runs.end() && in->start < piece.run.end; ++in) {
            const uint64_t start = std::max(in->start, piece.run.start);
            const uint64_t end = std::min(in->end, piece.run.end);
            kept.push_back({{start, end}, piece.at + (start - piece.run.start), piece.in_memory});
        }
    }
    pieces_ = std::move(kept);
}

const Stage::Piece *Stage::piece_at(uint64_t address) const
{
    const auto piece =
        std::upper_bound(pieces_.begin(), pieces_.end(), address,
                         [](uint64_t at, const Piece &one) { return at < one.run.end; });
    return piece == pieces_.end() || piece->run.start > address ? nullptr : &*piece;
}

Frozen::View Stage::view(uint64_t address, uint64_t size) const
{
    const Piece *piece = piece_at(address);
    if (piece == nullptr || !piece->in_memory || piece->run.end - address < size)
        return {};
    const uint64_t at = piece->at + (address - piece->run.start);
    return {{reinterpret_cast<const uint8_t *>(memory_.get()) + at, size},
            std::span(digests_).subspan(at / page, size / page)};
}

Result<void> Stage::read(uint64_t address, std::span<char> to) const
{
    while (!to.empty()) {
        const Piece *piece = piece_at(address);
        if (piece == nullptr)
            return Error(EFAULT,
                         fmt::format("the page at {:x} was not copied in the stop", address));
        const size_t most = std::min<uint64_t>(to.size(), piece->run.end - address);
        const uint64_t at = piece->at + (address - piece->run.start);
        ssize_t n = static_cast<ssize_t>(most);
        if (piece->in_memory)
            memcpy(to.data(), memory_.get() + at, most);
        else
            n = pread(file_.get(), to.data(), most, static_cast<off_t>(at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return Error::from_errno("reading copied pages", n < 0 ? errno : EIO);
        address += static_cast<uint64_t>(n);
        to = to.subspan(static_cast<size_t>(n));
    }
    return {};
}

std::map<pid_t, Stage> stages_for(const DeltaPlan &plan, std::optional<uint64_t> most)
{
    constexpr uint64_t least = 16 << 20;
    constexpr std::array<uint8_t, 16> nothing{};
    std::map<pid_t, Stage> stages;
    for (const auto &[id, base] : plan.bases()) {
        const auto pid = static_cast<pid_t>(id);
        const Result<std::string> status = Proc(pid).read("status");
        std::string_view kib = status ? field(*status, "VmRSS") : std::string_view();
        // Allocating takes time, so no more than is likely to be useful.
        uint64_t likely = take_number(kib) * 1024 / 10;
        if (base.expected != 0)
            likely = std::min(likely, 2 * base.expected * image::kPageSize);
        const uint64_t room = most.value_or(std::max(likely, least));
        const auto is_of_use = [&](const DeltaPlan::Watched &watched) {
            return watched.token != nothing && !watched.needs_copy;
        };
        if ((!is_of_use(base.watched) && !is_of_use(base.previous_watched)) || room == 0 ||
            base.expected * image::kPageSize > room)
            continue;
        if (std::optional<Stage> stage = Stage::make(room))
            stages.emplace(pid, std::move(*stage));
    }
    return stages;
}

Frozen::View Staged::view(uint64_t address, uint64_t size)
{
    const View found = stage_.view(address, size);
    if (!found.bytes.empty() && moved_)
        moved_(size);
    return found;
}

Result<void> Staged::read(uint64_t address, std::span<char> to, bool, int)
{
    Result<void> got = stage_.read(address, to);
    if (got && moved_)
        moved_(to.size());
    return got;
}

} // namespace cryo::capture
