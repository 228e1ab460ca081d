// SPDX-License-Identifier: Apache-2.0
//
// Opens what the command line names: an image, an archive, a directory of images, or a stream.
// Each part that cannot be read has an error of its own; the rest is shown.
//
//     Input input(options);
//     Source source = input.load("context.412");
//     for (const Entry &e : source.entries) ...
#pragma once

#include <memory>

#include "base/fd.hpp"
#include "description.hpp"
#include "image/snapshot.hpp"
#include "options.hpp"

namespace cryo::inspect {

// One process: its image, or why there is none to show.
struct Entry {
    std::string name = {};
    std::optional<Error> error = {};
    Description about = {};
    size_t member = 0; // of the snapshot
};

struct Source {
    std::string name = {};
    std::string kind = {};                          // "image", "archive", "directory", "stream"
    std::unique_ptr<image::Snapshot> snapshot = {}; // not of a stream
    image::Scope scope{};
    uint32_t root_pid = 0;
    std::vector<image::SnapshotMember> members = {};
    std::vector<Entry> entries = {};
    std::optional<Error> error = {}; // nothing of it could be read
};

class Input
{
  public:
    explicit Input(const Options &options) : options_(options) {}

    // With --pid, only that process.
    Source load(const std::string &path) const;
    // A regular file that is open; the path is its name, beside which a base is looked for.
    Source load_file(Fd fd, const std::string &path) const;

    // The image of an entry, for its pages. Not from a stream, which cannot be read again.
    Result<std::unique_ptr<image::Image>> open(const Source &source, const Entry &entry) const;

    // The only process of a file, for what works on one: --diff, --extract.
    Result<std::unique_ptr<image::Image>> open_only(const std::string &path) const;

  private:
    Source load_stream(const std::string &path, int fd) const;
    void take(Source &out, std::unique_ptr<image::Snapshot> snapshot) const;
    bool wanted(uint32_t pid) const { return !options_.pid || pid == options_.pid; }

    const Options &options_;
};

// A sentence on what can still be read of a file that is not a committed image.
std::string diagnose(const std::string &path);

} // namespace cryo::inspect
