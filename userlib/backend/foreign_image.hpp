// SPDX-License-Identifier: Apache-2.0
//
// An image of a process that another tool saved: it contains that tool's files, and describes the
// process. Only a part of any file is in memory at a time.
//
//     Result<ForeignImage> image = ForeignImage::begin(options);  // before the process is touched
//     image->describe(outline, {.backend = "criu", .tool = "criu 3.17.1"}, "stop", stopped_ns);
//     image->attach("pages-1.img", fd);
//     Result<image::Committed> done = image->commit();
//
//     Result<uint64_t> bytes = unpack(*image, directory);
#pragma once

#include "backend/outline.hpp"
#include "base/fd.hpp"
#include "capture/checkpoint.hpp"
#include "image/reader.hpp"
#include "image/writer.hpp"

#include <string>
#include <vector>

namespace cryo::backend {

struct Maker {
    std::string backend = {}, tool = {};
    std::vector<std::string> options = {}; // what the restart has to know
    std::vector<uint32_t> pids = {};       // of all processes, the root first
};

class ForeignImage
{
  public:
    static Result<ForeignImage> begin(const capture::CheckpointOptions &options);

    // `snapshot`: "running" or "stop". `stopped_ns`: for how long the process was stopped.
    Result<void> describe(const Outline &outline, const Maker &maker, std::string_view snapshot,
                          uint64_t stopped_ns);
    Result<void> attach(const std::string &name, int fd);
    // Attaches all regular files of a directory.
    Result<void> attach_all(const std::string &directory);
    Result<image::Committed> commit() { return writer_->commit(); }

  private:
    ForeignImage(std::unique_ptr<image::Sink> sink, image::Packing packing)
        : sink_(std::move(sink)), packing_(packing)
    {}

    std::unique_ptr<image::Sink> sink_;
    image::Packing packing_;
    std::unique_ptr<image::ImageWriter> writer_;
    uint32_t objects_ = 0;
    std::string backend_;
};

Result<Maker> maker_of(image::Image &image);

// Writes the attached files into an existing, empty directory. Returns the number of bytes.
Result<uint64_t> unpack(image::Image &image, const std::string &directory);

} // namespace cryo::backend
