// SPDX-License-Identifier: Apache-2.0
//
// The signals that a supervised program was sent through its supervisor or its terminal, and
// whether they have announced its end.
//
//     Wishes wishes(Wishes::ignored());
//     wishes.sent(SIGTERM, true);
//     if (const int signal = wishes.end()) ...     // a crash is no fault now
#pragma once

#include <map>
#include <set>
#include <utility>

namespace cryo::recover {

class Wishes
{
  public:
    // What was ignored when the supervisor began announces nothing: a shell's background command
    // ignores SIGINT, and a Ctrl-C that ends others there.
    explicit Wishes(std::set<int> ignored = {}) : ignored_(std::move(ignored)) {}
    static std::set<int> ignored(); // of the signals that may announce the end
    static bool asks(int signal);   // for the end

    // `is_there`: the program, which decides what SIGHUP means; without it, SIGHUP is the end.
    void sent(int signal, bool is_there);
    // A new image has appeared. It may have been begun before a signal, and completed after it: so
    // the second one shows that the program goes on.
    void image_came();

    bool had(int signal) const { return sent_.contains(signal); }
    // The signal that has asked for the end, and after which no image was begun; 0: none.
    int end() const;

  private:
    std::set<int> ignored_;
    std::map<int, bool> sent_; // whether an image has appeared since
    bool hung_up_ = false;
};

} // namespace cryo::recover
