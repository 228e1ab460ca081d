// SPDX-License-Identifier: Apache-2.0
//
// Takes one rank's image, in a process of its own, so
// that a failure there does not affect the daemon. The process also writes
// what opal-restart reads beside the image, and syncs that.
//
//     Imager imager(loop);
//     imager.start(pid, {.directory = where, .name = "cryo_context.412"}, how,
//                  {.cut = [] { the frozen copy is made }, .end = [](const Taken &taken) { ... }});
//
// Destroying it ends the process; a half-written image has no name yet and goes with it.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "coord/image_options.hpp"
#include "coord/loop.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::coord {

struct ImagePlace {
    uint32_t rank = 0;
    std::string directory; // which is made
    std::string name;      // of the image in it
    std::string local;     // "", or where it is written first, to be copied from there
    uint64_t rate = 0;     // of that copy, in bytes a second; 0: no limit
    // The image of the last finished snapshot, for a delta; "": there is none.
    std::string previous = {};
    std::string node = {}; // that the rank's metadata name; "": those of all ranks do
};

struct Taken {
    std::string error; // empty: there is an image
    int code = 0;
    uint64_t bytes = 0;
    std::string checksum; // of an image that was copied
    uint64_t threads = 0;
    uint64_t stopped_ns = 0;
    std::vector<int> needs; // of a delta: the snapshots with the images that it needs
    std::vector<std::string> notices;
};

class Imager
{
  public:
    explicit Imager(Loop &loop) : loop_(loop) {}
    virtual ~Imager();
    Imager(const Imager &) = delete;
    Imager &operator=(const Imager &) = delete;

    struct Events {
        std::function<void()> cut;
        std::function<void()> local = {}; // the image is written, and not copied yet
        std::function<void(const Taken &)> end;
    };
    virtual Result<void> start(pid_t pid, const ImagePlace &place, const ImageOptions &options,
                               Events events);
    // Whether a signal has stopped its process for so long; to be called repeatedly.
    virtual bool is_stopped_for(std::chrono::milliseconds time);

  private:
    void ready();
    void line(const std::string &text);
    void finish();

    Loop &loop_;
    Fd report_;
    pid_t child_ = 0;
    std::string text_;
    Taken taken_;
    bool ended_ = false;
    std::optional<std::chrono::steady_clock::time_point> stopped_;
    Events events_;
};

} // namespace cryo::coord
