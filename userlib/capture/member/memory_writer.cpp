// SPDX-License-Identifier: Apache-2.0
#include "capture/member/memory_writer.hpp"

#include "capture/memory/pages.hpp"
#include "capture/process/holes.hpp"

#include <algorithm>

namespace cryo::capture {

namespace {

using Part = PageSource::Part;
using PageRun = image::ImageWriter::PageRun;

// Takes pages from the front of a list of parts.
class Taking
{
  public:
    explicit Taking(const std::vector<Part> &all) : all_(all)
    {
        for (const Part &part : all)
            pages_ += (part.run.end - part.run.start) / image::kPageSize;
    }
    uint64_t left() const { return pages_; }

    // At most that many pages, in at most that many parts.
    std::vector<Part> next(uint64_t pages, size_t parts)
    {
        std::vector<Part> taken;
        while (pages > 0 && pages_ > 0 && taken.size() < parts) {
            Part part = all_[at_];
            part.run.start += done_;
            const uint64_t bytes =
                std::min(part.run.end - part.run.start, pages * image::kPageSize);
            part.run.end = part.run.start + bytes;
            done_ += bytes;
            pages -= bytes / image::kPageSize;
            pages_ -= bytes / image::kPageSize;
            if (part.run.end == all_[at_].run.end) {
                at_++;
                done_ = 0;
            }
            taken.push_back(part);
        }
        return taken;
    }

  private:
    const std::vector<Part> &all_;
    size_t at_ = 0;
    uint64_t done_ = 0; // bytes taken of that part
    uint64_t pages_ = 0;
};

uint64_t pages_in(const std::vector<Part> &parts)
{
    uint64_t pages = 0;
    for (const Part &part : parts)
        pages += (part.run.end - part.run.start) / image::kPageSize;
    return pages;
}

// Copies through the writer's memory.
Result<void> take(const std::vector<Part> &parts, Frozen &source, image::ImageWriter &writer)
{
    for (const Part &part : parts) {
        Result<uint64_t> saved = save_runs({part.run}, source, writer, memory_object, 0,
                                           part.zeros_behind_file, part.protection);
        if (!saved)
            return saved.error();
    }
    return {};
}

Result<void> put(const std::vector<Part> &parts, Frozen &source, image::ImageWriter &writer)
{
    std::vector<PageRun> runs;
    runs.reserve(parts.size());
    for (const Part &part : parts)
        runs.push_back({part.run.start / image::kPageSize,
                        (part.run.end - part.run.start) / image::kPageSize});
    Result<uint64_t> offset = writer.place_pages(memory_object, runs);
    if (!offset)
        return offset.error();
    const image::PlaceableFile &file = *writer.place();
    return source.put(parts, {file.fd(), file.name(), *offset});
}

// Places whole packages of the image; copies what completes a begun package, and the rest.
Result<void> place(const std::vector<Part> &parts, Frozen &source, image::ImageWriter &writer)
{
    Taking taking(parts);
    while (taking.left() > 0) {
        const uint64_t most = writer.placed_most(), missing = writer.before_placing();
        const uint64_t pages = pages_in(Taking(taking).next(most, writer.placed_runs));
        const uint64_t whole = pages - pages % writer.package_blocks();
        Result<void> done;
        if (missing > 0 || whole == 0)
            done = take(taking.next(missing > 0 ? missing : pages, parts.size()), source, writer);
        else
            done = put(taking.next(whole, writer.placed_runs), source, writer);
        if (!done)
            return done;
    }
    return {};
}

} // namespace

// What fork does not freeze is copied while the program is stopped: shared memory, and memory that
// is not inherited.
Result<void> MemoryWriter::save_unfrozen(image::ImageWriter &writer, int device)
{
    if (!freezing_.has_unforkable())
        return {};
    return while_served(device, [&](Frozen &source) -> Result<void> {
        for (image::Region &region : d_.regions) {
            if (!fork_leaves_out(region) || (region.flags & image::kRegionShared) != 0)
                continue;
            if (Result<void> saved = save_region(region, source, writer); !saved)
                return saved;
        }
        return {};
    });
}

Result<void> MemoryWriter::save_common(image::ImageWriter &writer, int device)
{
    for (const image::Object &object : d_.shared_objects) {
        if (Result<void> added = writer.add(object); !added)
            return added;
    }
    if (Result<void> left = leave_out_holes(process_.agent(), d_.shared);
        !left || d_.shared.empty())
        return left;
    return while_served(device, [&](Frozen &source) -> Result<void> {
        for (const SharedPart &part : d_.shared) {
            const std::vector<Run> all = {{part.start, part.end}};
            Result<uint64_t> saved =
                save_runs(all, source, writer, part.object,
                          part.start / image::kPageSize - part.page, true, part.protection);
            if (!saved)
                return saved.error();
            pages_ += *saved;
        }
        return {};
    });
}

Result<void> MemoryWriter::while_served(int device,
                                        const std::function<Result<void>(Frozen &)> &save)
{
    Result<std::unique_ptr<Frozen>> source =
        open_served(process_.agent().memory().serve(device), common_);
    if (!source)
        return source.error();
    if (Result<void> saved = save(**source); !saved)
        return saved;
    Result<void> done = (*source)->finish();
    return done ? process_.agent().memory().served() : done;
}

// For the address space: page numbers derive from addresses.
Result<uint64_t> MemoryWriter::save_pages(const std::vector<Run> &runs, Frozen &source,
                                          image::ImageWriter &writer, bool zeros_behind_file,
                                          int protection)
{
    if (delta_)
        return save_changed(runs, source, writer, *delta_, zeros_behind_file, protection);
    return save_runs(runs, source, writer, memory_object, 0, zeros_behind_file, protection);
}

// Finds the pages of the region to save, and records its guard pages.
Result<std::vector<Run>> MemoryWriter::look_at_region(const image::Region &region, Frozen &source)
{
    std::vector<Run> runs = {{region.start, region.end}};
    if ((region.flags & image::kRegionDroppable) != 0) {
        // The state of random numbers (getrandom in the vdso): two restarts must not draw the same.
        runs.clear();
    } else if ((region.flags & image::kRegionAllSaved) == 0) {
        Result<std::vector<Run>> own = source.own_pages(region.start, region.end);
        if (!own)
            return own.error();
        runs = std::move(*own);
    }
    Result<std::vector<Run>> guards = source.guards(region.start, region.end);
    if (!guards)
        return guards.error();
    for (const Run &run : *guards)
        d_.guards.push_back({run.start, run.end});
    return runs;
}

Result<void> MemoryWriter::save_region(image::Region &region, Frozen &source,
                                       image::ImageWriter &writer)
{
    Result<std::vector<Run>> runs = look_at_region(region, source);
    if (!runs)
        return runs.error();
    const bool whole_file = (region.flags & image::kRegionAllSaved) != 0;
    Result<uint64_t> saved =
        save_pages(*runs, source, writer, whole_file, static_cast<int>(region.prot));
    if (!saved)
        return saved.error();
    region.saved = *saved;
    pages_ += *saved;
    return {};
}

Result<void> MemoryWriter::save_private(image::ImageWriter &writer)
{
    for (image::Region &region : d_.regions) {
        if (!is_frozen(region))
            continue;
        if (Result<void> saved = save_region(region, freezing_.frozen(), writer); !saved)
            return saved;
    }
    if (d_.memory.vdso_size != 0) {
        const std::vector<Run> vdso = {
            {d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size}};
        if (Result<uint64_t> saved = save_pages(vdso, freezing_.frozen(), writer); !saved)
            return saved.error();
    }
    if (delta_ && delta_->stores()) {
        if (Result<void> done = delta_->finish(writer, d_.objects.take()); !done)
            return done;
    }
    return freezing_.frozen().finish();
}

Result<std::vector<Part>> MemoryWriter::parts_to_place()
{
    std::vector<Part> parts;
    for (image::Region &region : d_.regions) {
        if (!is_frozen(region))
            continue;
        Result<std::vector<Run>> runs = look_at_region(region, freezing_.frozen());
        if (!runs)
            return runs.error();
        const bool whole_file = (region.flags & image::kRegionAllSaved) != 0;
        for (const Run &run : *runs)
            parts.push_back({run, whole_file, static_cast<int>(region.prot)});
        region.saved = size_of(*runs) / image::kPageSize;
        pages_ += region.saved;
    }
    if (d_.memory.vdso_size != 0)
        parts.push_back(
            {{d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size}, false, -1});
    return parts;
}

// Saves memory with a single copy, from the program into the image's file. Checksums and pages of
// zeros are determined after the program has resumed. No device: the module would copy into the
// pipe what the agent sends by reference.
Result<void> MemoryWriter::place_itself(image::ImageWriter &writer)
{
    if (Result<void> frozen = freezing_.freeze_itself(-1); !frozen)
        return frozen;
    Result<std::vector<Part>> parts = parts_to_place();
    if (!parts)
        return parts.error();
    if (Result<void> placed = place(*parts, freezing_.frozen(), writer); !placed)
        return placed;
    if (Result<void> done = freezing_.frozen().finish(); !done)
        return done;
    is_placed_ = true;
    return process_.agent().memory().served();
}

Result<void> MemoryWriter::save_frozen(image::ImageWriter &writer)
{
    const Unchanged &found = freezing_.changes().found();
    if (delta_)
        delta_->use(found);
    if (Result<void> audited = freezing_.changes().audit_early_copy(freezing_.frozen()); !audited)
        return audited;
    return is_placed_ ? writer.check_placed() : save_private(writer);
}

} // namespace cryo::capture
