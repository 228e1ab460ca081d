// SPDX-License-Identifier: Apache-2.0
//
// System V objects of an image, for restored processes. An object that still exists is
// reused, if nobody else uses it; the others are made, with their keys and their ids,
// which the programs keep as numbers. A restart that cannot have an id is refused.
//
//     Result<std::unique_ptr<IpcObjects>> ipc = IpcObjects::make(records, image, notices);
//     (*ipc)->segment(region.object).id;   // for attaching a segment
//     (*ipc)->fill();                  // contents, values, messages:
//                                      // only when nothing else can fail any more
//     (*ipc)->finish();                // permissions; from now on the objects stay
//
// Objects that were made are removed with this instance, unless finish() was reached.
#pragma once

#include "base/result.hpp"
#include "image/reader.hpp"
#include "image/records.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cryo::restore {

class IpcObjects
{
  public:
    static Result<std::unique_ptr<IpcObjects>> make(const std::vector<image::Ipc> &records,
                                                    image::Image &image,
                                                    std::vector<std::string> &notices);
    IpcObjects(const IpcObjects &) = delete;
    IpcObjects &operator=(const IpcObjects &) = delete;
    ~IpcObjects();

    struct Segment {
        int id = 0;
        uint64_t size = 0;
    };
    // The segment whose contents are in `object`; id −1: there is none.
    Segment segment(uint32_t object) const;
    Result<void> fill();
    Result<void> finish();

  private:
    struct One {
        image::Ipc saved; // without its lists
        std::vector<unsigned short> values;
        int id = -1;
        bool made = false;
        void *held = nullptr; // a removed segment, attached so that it lives
        uint64_t bytes = 0;   // of messages
    };

    explicit IpcObjects(image::Image &image) : image_(image) {}
    Result<void> bring(One &one, std::vector<std::string> &notices);
    static Result<void> create(One &one);
    static Result<void> make_again(One &one, std::vector<std::string> &notices);
    Result<void> fill_segment(One &one);
    Result<void> fill_queue(const One &one);
    static Result<void> fill_semaphores(One &one);

    image::Image &image_;
    std::vector<One> all_;
    bool stay_ = false;
};

} // namespace cryo::restore
