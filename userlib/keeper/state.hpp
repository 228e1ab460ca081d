// SPDX-License-Identifier: Apache-2.0
//
// keeper.json in the directory of the images: how long programs have run there and how often they
// had to be restarted, for people and for the choice of the interval. One keeper at a time owns it.
//
//     Result<State> state = State::take("/scratch/context.412.d");
//     state->set("interval_s", 60);
//     state->save();
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "keeper/series.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

namespace cryo::keeper {

class State
{
  public:
    // Waits a little for a keeper that is about to end. An unreadable state is an error, not an
    // empty one.
    static Result<State> take(const std::string &directory, int patience_ms = 5000);
    // Whether a keeper owns it now.
    static bool is_taken(const Directory &directory);

    template <class T>
    T get(const char *name, T otherwise) const
    {
        const auto at = values_.find(name);
        return at != values_.end() && at->is_primitive() && !at->is_null() &&
                       at->is_string() == std::is_same_v<T, std::string>
                   ? at->template get<T>()
                   : otherwise;
    }
    bool has(const char *name) const { return values_.contains(name); }
    // The images that were made here.
    Images images() const { return images_in("images"); }
    void set_images(const Images &images) { values_["images"] = images; }
    // What was sent to a server, and may be removed there.
    Images sent() const { return images_in("sent"); }
    void set_sent(const Images &images) { values_["sent"] = images; }
    // A new image is one more that was made here; the number is not given again, as its name may
    // be.
    void count(const std::string &name);
    // How many were made until now; until this one, itself included. 0: it is not known.
    uint64_t made() const { return get("made", uint64_t(0)); }
    uint64_t made(const std::string &name) const;
    template <class T>
    void set(const char *name, const T &value)
    {
        values_[name] = value;
    }
    Result<void> save() const;

    // The mean time between failures, estimated from `setting` and from the failures seen so
    // far.
    double failure_interval(double setting) const;

    int lock() const { return lock_.get(); }
    // Releases the lock, so that another keeper may take it. An empty directory is removed if
    // it `was_made` for this.
    void give_back(bool was_made);

  private:
    State(Directory directory, Fd lock) : directory_(std::move(directory)), lock_(std::move(lock))
    {}
    Images images_in(const char *list) const;

    Directory directory_;
    Fd lock_;
    nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
};

} // namespace cryo::keeper
