// SPDX-License-Identifier: Apache-2.0
//
// Keeps a place for one push, or one removal, at a time: of two at once, one could remove what the
// other one needs and finds there. An object says who has the place:
//
//     PLACE/pushing
//
//     Result<std::unique_ptr<Claim>> claim = Claim::take(settings, place, terms);   // or EBUSY
//     ...
//     claim->check();                                  // before anything is committed or removed
//
// It is written only where there is none (If-None-Match), and read again, as not all servers know
// such conditions. What a process has left that has ended counts no more: on this machine as soon
// as it has ended, and else ten minutes after it was renewed last, by the server's clock.
#pragma once

#include "base/result.hpp"
#include "store/claimant.hpp"
#include "store/client.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace cryo::store {

inline constexpr std::string_view claim_name = "pushing";
inline constexpr std::chrono::seconds claim_holds{600};

// Whether one of that age keeps a place; an age that the server does not tell is none.
bool is_held(const std::optional<Claimant> &by, std::optional<std::chrono::seconds> age);

class Claim
{
  public:
    // EBUSY: another one has the place.
    static Result<std::unique_ptr<Claim>> take(const Settings &settings, const Location &place,
                                               const Terms &terms);
    ~Claim(); // gives the place back
    Claim(const Claim &) = delete;
    Claim &operator=(const Claim &) = delete;

    // EBUSY: another one has taken the place.
    Result<void> check();
    // As a thread does each minute.
    void renew();

  private:
    Claim(const Settings &settings, const Location &place, const Terms &terms);
    Result<void> begin();
    Result<std::string> own_version(Client &client) const;
    Error taken_by(const std::optional<Claimant> &other) const;
    void keep_up(const std::stop_token &over);

    Location place_, at_;
    Claimant self_ = Claimant::self();
    Client client_;
    Client at_once_; // has no patience; for the thread that renews, and at the end
    bool is_taken_ = false;
    std::mutex mutex_;
    std::condition_variable_any woken_;
    std::jthread renewal_; // ends before the others go
};

} // namespace cryo::store
