// SPDX-License-Identifier: Apache-2.0
//
// The terminal while cr_top shows a screen on it: keys come one by one, and unseen; what was there
// before comes back at the end, also when a signal ends or stops the command.
//
//     Result<Terminal> terminal = Terminal::take();
//     terminal->show(lines);
//     switch (terminal->await(2000)) { case Event::key: ... terminal->key() ... }
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <termios.h>
#include <vector>

namespace cryo::top {

enum class Event { timeout, key, resized, ended };

class Terminal
{
  public:
    // ENOTTY: standard input or output is none.
    static Result<Terminal> take();
    Terminal(Terminal &&other) noexcept;
    Terminal &operator=(Terminal &&) = delete;
    ~Terminal();

    // As much of the lines as there is room for.
    void show(const std::vector<std::string> &lines) const;
    // Event::ended: by a signal, or because the terminal is gone.
    Event await(int milliseconds);
    char key() const { return key_; }          // of the last Event::key
    int ended_by() const { return ended_by_; } // the signal of the last Event::ended; 0: none

  private:
    explicit Terminal(const termios &before) : before_(before) {}
    void enter() const;
    void leave() const;
    Event take_signal();
    void stop();

    termios before_;
    Fd signals_;
    bool entered_ = false;
    char key_ = 0;
    int ended_by_ = 0;
};

} // namespace cryo::top
