// SPDX-License-Identifier: Apache-2.0
//
// The moment at which an image gets its name, for those who may find afterwards that it should not
// have got it.
//
//     // Asked right before, when the image is complete and has a name for now:
//     Publication publication([&](const std::string &place) { return is_right(place); });
//     FileOptions options = {.publication = &publication};
//     ... sink->commit() ...
//     if (went_wrong)
//         publication.take_back();  // what had the name before has it again
//     else
//         publication.keep();       // what had it before is gone; also done when this is destroyed
#pragma once

#include "base/result.hpp"

#include <functional>
#include <string>
#include <utility>

namespace cryo::image {

class Publication
{
  public:
    using Step = std::function<Result<void>()>;

    using Look = std::function<Result<void>(const std::string &place)>;

    explicit Publication(Look may_be) : may_be_(std::move(may_be)) {}
    ~Publication() { static_cast<void>(keep()); }
    Publication(const Publication &) = delete;
    Publication &operator=(const Publication &) = delete;

    // For sinks: whether it may be published; and that it has been, with how to end it either way.
    Result<void> may_be(const std::string &place) const { return may_be_(place); }
    void has_been(Step keep, Step take_back)
    {
        keep_ = std::move(keep);
        take_back_ = std::move(take_back);
    }

    Result<void> keep() { return end_by(keep_); }
    Result<void> take_back() { return end_by(take_back_); }

  private:
    Result<void> end_by(const Step &chosen)
    {
        const Step step = chosen;
        keep_ = take_back_ = nullptr;
        return step ? step() : Result<void>();
    }

    Look may_be_;
    Step keep_, take_back_;
};

} // namespace cryo::image
