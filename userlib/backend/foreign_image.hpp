// SPDX-License-Identifier: Apache-2.0
//
// An image of a process that somebody else saved: it carries what they wrote, file by file, and
// says who the process was. Of any file only a part is in memory at a time.
//
//     Result<ForeignImage> image = ForeignImage::begin(options);  // before the process is touched
//     image->describe(outline, {.backend = "criu", .tool = "criu 3.17.1"});
//     image->attach("pages-1.img", fd);
//     Result<image::Committed> done = image->commit();
//
//     Result<Unpacked> unpacked = unpack(*image, directory);
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
    std::vector<std::string> options = {}; // what the restart needs to know
    std::vector<uint32_t> pids = {};       // of all processes, the root first
};

class ForeignImage
{
  public:
    static Result<ForeignImage> begin(const capture::CheckpointOptions &options);

    // How it was done: "fork" or "stop", and for how long it stood still.
    Result<void> describe(const Outline &outline, const Maker &maker, std::string_view snapshot,
                          uint64_t stopped_ns);
    Result<void> attach(const std::string &name, int fd);
    // All regular files of a directory.
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

// The attached files, as they were, in a directory that is there and empty.
Result<uint64_t> unpack(image::Image &image, const std::string &directory);

} // namespace cryo::backend
