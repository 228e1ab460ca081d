// SPDX-License-Identifier: Apache-2.0
//
// The images from which a supervised program can come back: those that are complete, and listed in
// the directory's keeper.json.
//
//     Result<Images> images = Images::take("/scratch/run");
#pragma once

#include "base/result.hpp"
#include "keeper/state.hpp"
#include "recover/past.hpp"

#include <memory>
#include <string>

namespace cryo::recover {

class Images : public Past
{
  public:
    // EBUSY: a keeper may still make one, and that after this time.
    static Result<Images> take(const std::string &directory, int patience_ms = 5000);
    Images(Images &&) = default;
    Images &operator=(Images &&) = default;
    ~Images() override;

    // Renames it to abandoned.NAME, and `latest` is the newest of the others: what a program has
    // done after it was brought back from an older image does not fit to a newer one, as its files
    // have gone another way.
    Result<void> abandon(const std::string &name) override;

  private:
    Images(keeper::Series series, std::unique_ptr<keeper::State> state)
        : series_(std::move(series)), state_(std::move(state))
    {}
    Result<void> find();

    keeper::Series series_;
    std::unique_ptr<keeper::State> state_; // keeps keepers out
};

} // namespace cryo::recover
