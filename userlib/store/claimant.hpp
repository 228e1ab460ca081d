// SPDX-License-Identifier: Apache-2.0
//
// A process that has something which others leave alone as long as the process lives: a text beside
// that thing names it.
//
//     directory.write("mark", Claimant::self().text());
//     const std::optional<Claimant> whose = Claimant::parse(text);
//     if (whose && whose->has_ended()) ... // what it has left may go
#pragma once

#include <optional>
#include <string>

namespace cryo::store {

// A process, on whichever machine.
struct Claimant {
    std::string id = {}; // by chance, of one claim
    std::string host = {};
    std::string machine = {}; // which start of it
    std::string space = {};   // of process numbers
    int pid = 0;
    std::string started = {}; // when, as the machine counts

    static Claimant self();
    // None: that is no claim.
    static std::optional<Claimant> parse(const std::string &text);
    std::string text() const;
    // For sure: it was a process of this machine.
    bool has_ended() const;
};

} // namespace cryo::store
