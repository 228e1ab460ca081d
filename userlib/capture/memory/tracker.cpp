// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/tracker.hpp"

#include "capture/memory/early_copy.hpp"
#include "capture/memory/soft_dirty.hpp"
#include "capture/memory/userfaultfd.hpp"
#include "look/address_range.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

namespace cryo::capture {

using agent::TrackerKind;

namespace {

constexpr uint64_t page = image::kPageSize;
// Mappings that hold fewer pages are hashed faster than watched.
constexpr uint64_t least_pages = 16;

// userfaultfd with WP_ASYNC: a page is write-protected, the first write removes the protection
// without involving anyone, and PAGEMAP_SCAN reports unprotected pages. That includes writes by the
// kernel on the program's behalf. A new or moved mapping is not registered, and PAGEMAP_SCAN
// reports that.
class WriteProtection final : public Tracker
{
  public:
    WriteProtection(AgentSession &session, TrackerLink link, PageMap map)
        : session_(session), link_(std::move(link)), uffd_(std::move(link_.fd)),
          token_(link_.token), map_(std::move(map))
    {}
    static std::unique_ptr<Tracker> probe(AgentSession &session, const Proc &proc);

    std::string_view name() const override { return userfaultfd_name; }
    const TrackerToken &token() const override { return token_; }
    uint64_t mark() const override { return link_.mark; }
    bool add(const EarlyCopy &early) override
    {
        early_ = early.is_of(link_) ? &early : nullptr;
        return early_ != nullptr;
    }
    const std::vector<Run> &watched() const override { return watched_; }

    // Any failure on the way leaves a token that no image has.
    Result<void> arm(const std::vector<Run> &mappings, const std::vector<Run> & /*before*/,
                     bool continues, const TrackerToken &token) override
    {
        if (Result<void> told = session_.memory().set_watched({}); !told)
            return told;
        token_ = {};
        for (const Run &mapping : mappings) {
            if (Result<void> armed = arm_mapping(mapping, continues); !armed)
                return armed;
        }
        if (Result<void> told = session_.memory().set_watched(token); !told)
            return told;
        token_ = token;
        return {};
    }

    // Stack pages that the agent has written since arm() are not clean either: the image has them
    // as they are now.
    Result<std::vector<Run>> clean() override
    {
        std::vector<Run> all;
        for (const Seen &seen : seen_) {
            Result<std::vector<Run>> written = map_.written(seen.mapping.start, seen.mapping.end);
            if (!written)
                return written.error();
            const std::vector<Run> left = without(seen.written.kept, *written);
            all.insert(all.end(), left.begin(), left.end());
        }
        return all;
    }

    Result<std::vector<Run>> written(const std::vector<Run> &places) override
    {
        std::vector<Run> all;
        for (const Seen &seen : seen_) {
            for (const Run &place : part_of(places, seen.mapping)) {
                Result<std::vector<Run>> written = map_.written(place.start, place.end);
                if (!written)
                    return written;
                all.insert(all.end(), written->begin(), written->end());
            }
        }
        return all;
    }

    const Seen *seen(const Run &mapping) const override
    {
        const auto at = std::ranges::lower_bound(seen_, mapping.start, {},
                                                 [](const Seen &s) { return s.mapping.start; });
        const bool found = at != seen_.end() && at->mapping.start == mapping.start &&
                           at->mapping.end == mapping.end;
        return found ? &*at : nullptr;
    }

    void disarm() override
    {
        watched_.clear();
        seen_.clear();
        token_ = {};
        uffd_.reset();
        static_cast<void>(session_.memory().stop_watching());
    }

  private:
    // The candidates include holes, which no image contains. Pages that appear in them before the
    // copy is made are found by clean().
    Result<void> arm_mapping(const Run &mapping, bool continues)
    {
        if (continues) {
            Result<PageMap::Written> written = map_.protect_written(mapping.start, mapping.end);
            if (written) {
                if (early_ != nullptr)
                    early_->add_to(mapping, *written);
                watched_.push_back(mapping);
                seen_.push_back({mapping, std::move(*written)});
                return {};
            }
            if (written.error().code() != EPERM)
                return written.error();
        }
        Result<std::vector<Run>> held = map_.own_pages(mapping.start, mapping.end);
        if (!held)
            return held.error();
        if (size_of(*held) < least_pages * page || !is_watched_by(uffd_, mapping))
            return {};
        watched_.push_back(mapping);
        for (const Run &run : *held) {
            uffdio_writeprotect protect = {};
            protect.range = {run.start, run.end - run.start};
            protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
            if (ioctl(uffd_.get(), UFFDIO_WRITEPROTECT, &protect) != 0)
                return Error::from_errno("watching memory", errno);
        }
        return {};
    }

    AgentSession &session_;
    TrackerLink link_;
    Fd uffd_;
    TrackerToken token_;
    PageMap map_;
    const EarlyCopy *early_ = nullptr;
    std::vector<Run> watched_;
    std::vector<Seen> seen_; // ascending
};

} // namespace

bool has_pinned(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    std::string_view pinned = status ? field(*status, "VmPin") : std::string_view();
    return pinned.empty() || take_number(pinned) != 0;
}

const std::vector<Run> &Tracker::unsure() const
{
    static const std::vector<Run> none;
    return none;
}

std::unique_ptr<Tracker> WriteProtection::probe(AgentSession &session, const Proc &proc)
{
    // Linux 6.7 to 6.9 report some swapped pages as clean.
    if (!kernel_is_at_least(6, 10))
        return nullptr;
    Result<TrackerLink> link = session.memory().tracker(TrackerKind::write_protection);
    Result<PageMap> map = PageMap::open(proc);
    if (!link || !link->fd || !map)
        return nullptr;
    return std::make_unique<WriteProtection>(session, std::move(*link), std::move(*map));
}

bool may_use(std::string_view tracker)
{
    const char *variable = sys::own_variable("CRYO_TRACKER");
    const std::string_view wanted = variable != nullptr ? variable : "";
    return wanted.empty() || wanted == tracker;
}

std::unique_ptr<Tracker> Tracker::probe(AgentSession &session, const Proc &proc)
{
    if (has_pinned(proc)) {
        static_cast<void>(session.memory().stop_watching());
        return std::make_unique<Hashing>();
    }
    std::unique_ptr<Tracker> found;
    if (may_use(userfaultfd_name))
        found = WriteProtection::probe(session, proc);
    if (!found && (may_use(soft_dirty_name) || may_use(module_name)))
        found = SoftDirty::probe(session, proc);
    return found ? std::move(found) : std::make_unique<Hashing>();
}

std::vector<Run> watched_mappings(std::string_view smaps)
{
    std::vector<Run> found;
    Run now = {};
    while (!smaps.empty()) {
        std::string_view line = take_line(smaps);
        if (line.starts_with("VmFlags:")) {
            take_word(line);
            while (!line.empty()) {
                if (take_word(line) == "uw")
                    found.push_back(now);
            }
            continue;
        }
        if (const std::optional<Run> range = take_range(line))
            now = *range;
    }
    return found;
}

Result<Watchers> who_watches(AgentSession &session, const Proc &proc, std::string_view smaps)
{
    Watchers found;
    const std::vector<Run> all = watched_mappings(smaps);
    if (all.empty())
        return found;
    Result<TrackerLink> link = session.memory().tracker(TrackerKind::none);
    if (!link)
        return link.error();
    Result<PageMap> map = PageMap::open(proc);
    if (!map)
        return map.error();
    for (const Run &mapping : all) {
        // Another mapping may be there by now. It must not be registered here: before Linux 6.13
        // pages that mremap moved there look protected, and arm() would take them for clean. An
        // entry is one mapping, so checking its first page is enough.
        const bool registered =
            link->kind == TrackerKind::soft_dirty
                ? is_registered(link->fd, *map, RemoteAddress(mapping.start))
                : static_cast<bool>(map->written(mapping.start, mapping.start + page));
        if (link->fd && registered && is_watched_by(link->fd, mapping))
            found.ours.push_back(mapping);
    }
    found.others = found.ours.size() != all.size();
    return found;
}

} // namespace cryo::capture
