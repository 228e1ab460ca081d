// SPDX-License-Identifier: Apache-2.0
//
// Publishes an image under its name so that the caller can still withdraw it, if it finds out
// afterwards that the image is wrong.
//
//     // Called right before, when the image is complete and has a temporary name:
//     Publication publication([&](const std::string &place) { return is_right(place); });
//     FileOptions options = {.publication = &publication};
//     ... sink->commit() ...
//     if (went_wrong)
//         publication.take_back();  // the previous file has the name again
//     else
//         publication.keep();       // the previous file is removed; the destructor does this, too
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

    // For sinks: may_be() asks whether to publish; has_been() takes both ways to end it afterwards.
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
