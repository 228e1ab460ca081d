// SPDX-License-Identifier: Apache-2.0
//
// System V objects of an image, for the processes that come back: those that are still there are
// taken again, if nobody else uses them; the others are made, with their keys and their ids, which
// the programs keep as numbers. A restart that cannot have an id is refused.
//
//     Result<std::unique_ptr<IpcObjects>> ipc = IpcObjects::make(records, image, notices);
//     (*ipc)->id_of(region.object);    // for who attaches a segment
//     (*ipc)->fill();                  // when nothing can fail any more: contents, values,
//     messages
//     (*ipc)->finish();                // permissions; from now on they stay
//
// What was made goes away with this object, unless finish() was reached.
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
    // By the object that has its contents; id −1: there is none.
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
