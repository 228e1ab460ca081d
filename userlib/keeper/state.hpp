// SPDX-License-Identifier: Apache-2.0
//
// keeper.json in the directory of the images: how long programs have run there and how often they
// had to be restarted, for people and for the choice of the interval. One keeper at a time has it.
//
//     Result<State> state = State::take("/scratch/context.412.d");
//     state->set("interval_s", 60);
//     state->save();
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace cryo::keeper {

class State
{
  public:
    // Waits a little for a keeper that is about to end.
    static Result<State> take(const std::string &directory);

    template <class T>
    T get(const char *name, T otherwise) const
    {
        return values_.value(name, otherwise);
    }
    template <class T>
    void set(const char *name, const T &value)
    {
        values_[name] = value;
    }
    Result<void> save() const;

    // The mean time between failures, when `setting` was said and what has been seen counts as
    // well.
    double failure_interval(double setting) const;

    int lock() const { return lock_.get(); }
    // Another keeper may have it from now on. A directory in which nothing is goes away.
    void give_back();

  private:
    State(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

    std::string path_;
    Fd lock_;
    nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
};

} // namespace cryo::keeper
