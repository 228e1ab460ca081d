// SPDX-License-Identifier: Apache-2.0
#include "capture/tracker.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>

namespace cryo::capture {

namespace {

constexpr uint64_t page = 4096;
// Mappings that hold less are hashed sooner than watched.
constexpr uint64_t least_pages = 16;

// Linux 6.7 to 6.9 take some swapped pages for clean ones.
bool kernel_is_right()
{
    utsname system = {};
    unsigned major = 0;
    unsigned minor = 0;
    return uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 10));
}

// Registering is refused where somebody else has done it, and changes nothing where we have.
bool is_watched_by(const Fd &userfaultfd, const Run &mapping)
{
    uffdio_register range = {};
    range.range = {mapping.start, mapping.end - mapping.start};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    return ioctl(userfaultfd.get(), UFFDIO_REGISTER, &range) == 0;
}

// userfaultfd with WP_ASYNC: a page is protected against writing, the first write takes the
// protection away without asking anybody, and PAGEMAP_SCAN tells which are not protected any more.
// That goes for writes by the kernel on the program's behalf too. A mapping that is new, or was
// moved, is not registered, and PAGEMAP_SCAN says so.
class WriteProtection final : public Tracker
{
  public:
    WriteProtection(AgentSession &session, TrackerLink link, PageMap map)
        : session_(session), uffd_(std::move(link.fd)), token_(link.token), map_(std::move(map))
    {}

    std::string_view name() const override { return "userfaultfd"; }
    const TrackerToken &token() const override { return token_; }
    const std::vector<Run> &watched() const override { return watched_; }

    // Whatever goes wrong on the way leaves a token that no image has.
    Result<void> arm(const std::vector<Run> &mappings, bool continues,
                     const TrackerToken &token) override
    {
        if (Result<void> told = session_.set_watched({}); !told)
            return told;
        token_ = {};
        for (const Run &mapping : mappings) {
            if (Result<void> armed = arm_mapping(mapping, continues); !armed)
                return armed;
        }
        if (Result<void> told = session_.set_watched(token); !told)
            return told;
        token_ = token;
        return {};
    }

    // What the agent has written since it was armed, on a stack, is not clean either: the image has
    // it as it is now.
    Result<std::vector<Run>> clean() override
    {
        std::vector<Run> all;
        for (const Seen &seen : seen_) {
            Result<std::vector<Run>> written = map_.written(seen.mapping.start, seen.mapping.end);
            if (!written)
                return written.error();
            const std::vector<Run> left = without(seen.not_written, *written);
            all.insert(all.end(), left.begin(), left.end());
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
        static_cast<void>(session_.stop_watching());
    }

  private:
    // Holes are among the candidates: they are in no image. What comes there before the copy is
    // made is found by clean().
    Result<void> arm_mapping(const Run &mapping, bool continues)
    {
        if (continues) {
            Result<PageMap::Written> written = map_.protect_written(mapping.start, mapping.end);
            if (written) {
                watched_.push_back(mapping);
                seen_.push_back({mapping, without({mapping}, written->all), std::move(*written)});
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
    Fd uffd_;
    TrackerToken token_;
    PageMap map_;
    std::vector<Run> watched_;
    std::vector<Seen> seen_; // ascending
};

// Pages that a device or a ring of requests may write to past the page tables.
bool has_pinned(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    std::string_view pinned = status ? field(*status, "VmPin") : std::string_view();
    return pinned.empty() || take_number(pinned) != 0;
}

} // namespace

std::unique_ptr<Tracker> Tracker::probe(AgentSession &session, const Proc &proc)
{
    auto none = std::make_unique<Hashing>();
    if (!kernel_is_right())
        return none;
    Result<TrackerLink> link = session.tracker(true);
    if (!link || !link->fd)
        return none;
    Result<PageMap> map = PageMap::open(proc);
    if (!map || has_pinned(proc)) {
        static_cast<void>(session.stop_watching());
        return none;
    }
    return std::make_unique<WriteProtection>(session, std::move(*link), std::move(*map));
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
        const size_t word = line.find(' ');
        const size_t dash = line.find('-');
        if (dash == std::string_view::npos || dash > word || line[word - 1] == ':')
            continue;
        now.start = take_number(line, 16);
        line.remove_prefix(1);
        now.end = take_number(line, 16);
    }
    return found;
}

Result<Watchers> who_watches(AgentSession &session, const Proc &proc, std::string_view smaps)
{
    Watchers found;
    const std::vector<Run> all = watched_mappings(smaps);
    if (all.empty())
        return found;
    Result<TrackerLink> link = session.tracker(false);
    if (!link)
        return link.error();
    Result<PageMap> map = PageMap::open(proc);
    if (!map)
        return map.error();
    for (const Run &mapping : all) {
        // Another may be there by now. It must not be registered here: before Linux 6.13 pages that
        // mremap has moved there look protected, and arm() would take them for clean.
        if (link->fd && map->written(mapping.start, mapping.end) &&
            is_watched_by(link->fd, mapping))
            found.ours.push_back(mapping);
    }
    found.others = found.ours.size() != all.size();
    return found;
}

} // namespace cryo::capture
