// SPDX-License-Identifier: Apache-2.0
//
// Sends memory from an image to a process that is being restored:
// read and verified here, and read by the restorer from a pipe.
//
//     Result<PageSender> sender = PageSender::create(pipe);
//     sender->send(image, fill, moved);
//
// The verified bytes are the ones sent, while they are still in the processor's
// cache: the pipe gets references to the pages that were read into, no copies.
// While they are sent, the kernel already reads ahead in the image.
#pragma once

#include "base/fd.hpp"
#include "image/reader.hpp"
#include "restore/plan_parts.hpp"

#include <functional>

namespace cryo::restore {

class PageSender
{
  public:
    // `pipe`: the end that is written to.
    static Result<PageSender> create(Fd pipe);
    PageSender(PageSender &&other) noexcept;
    PageSender &operator=(PageSender &&) = delete;
    ~PageSender();

    Result<void> send(image::Image &image, const Fill &fill,
                      const std::function<void(uint64_t bytes)> &moved);

  private:
    PageSender(Fd pipe, uint8_t *ring, size_t size)
        : pipe_(std::move(pipe)), ring_(ring), size_(size)
    {}
    Result<void> pass_on(image::Bytes bytes);

    Fd pipe_;
    uint8_t *ring_;
    size_t size_; // of the ring, in bytes
    size_t at_ = 0;
};

} // namespace cryo::restore
