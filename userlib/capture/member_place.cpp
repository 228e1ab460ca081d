// SPDX-License-Identifier: Apache-2.0
// Saves a member's memory with a single copy, from the program into the image's file. Checksums and
// pages of zeros are determined after the program has resumed.
#include "capture/member.hpp"

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
            pages_ += (part.run.end - part.run.start) / 4096;
    }
    uint64_t left() const { return pages_; }

    // At most that many pages, in at most that many parts.
    std::vector<Part> next(uint64_t pages, size_t parts)
    {
        std::vector<Part> taken;
        while (pages > 0 && pages_ > 0 && taken.size() < parts) {
            Part part = all_[at_];
            part.run.start += done_;
            const uint64_t bytes = std::min(part.run.end - part.run.start, pages * 4096);
            part.run.end = part.run.start + bytes;
            done_ += bytes;
            pages -= bytes / 4096;
            pages_ -= bytes / 4096;
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
        pages += (part.run.end - part.run.start) / 4096;
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
        runs.push_back({part.run.start / 4096, (part.run.end - part.run.start) / 4096});
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

Result<std::vector<Part>> Member::parts_to_place()
{
    std::vector<Part> parts;
    for (image::Region &region : d_.regions) {
        if (!is_frozen(region))
            continue;
        Result<std::vector<Run>> runs = look_at_region(region, *frozen_);
        if (!runs)
            return runs.error();
        const bool whole_file = (region.flags & image::kRegionAllSaved) != 0;
        for (const Run &run : *runs)
            parts.push_back({run, whole_file, static_cast<int>(region.prot)});
        region.saved = size_of(*runs) / 4096;
        pages_ += region.saved;
    }
    if (d_.memory.vdso_size != 0)
        parts.push_back(
            {{d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size}, false, -1});
    return parts;
}

// No device: the module would copy into the pipe what the agent sends by reference.
Result<void> Member::place_itself(image::ImageWriter &writer)
{
    if (Result<void> frozen = freeze_itself(-1); !frozen)
        return frozen;
    Result<std::vector<Part>> parts = parts_to_place();
    if (!parts)
        return parts.error();
    if (Result<void> placed = place(*parts, *frozen_, writer); !placed)
        return placed;
    if (Result<void> done = frozen_->finish(); !done)
        return done;
    is_placed_ = true;
    return session_->memory().served();
}

} // namespace cryo::capture
