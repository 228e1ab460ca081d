// SPDX-License-Identifier: Apache-2.0
#include "bookmark/versions.hpp"

namespace cryo::bookmark {

// The message names the last checkpoint that this rank has passed.
void Versions::ask()
{
    Message m = reports_.message(MessageType::want);
    m.epoch -= phase_ == Phase::asked;
    reports_.send(m);
}

uint64_t Versions::begin()
{
    collectives_.start(comm_);
    ask();
    return comm_.clock;
}

Version Versions::state(uint64_t number) const
{
    if (saved_ >= number)
        return Version::saved;
    if (failed_ >= number)
        return Version::failed;
    // Another rank cannot reach the cut unless this one leaves its call. A receive from any source
    // asks every member, so such a need does not prove that this rank is to send the message.
    bool beyond = phase_ == Phase::asked &&
                  (collectives_.is_behind() || collectives_.has_epoch() || needs_.is_needed(true));
    return beyond ? Version::straddled : Version::open;
}

void Versions::note_end(bool saved)
{
    (saved ? saved_ : failed_) = comm_.clock;
    cuts_ += saved;
}

void Versions::note_restart()
{
    restarts_++;
    cuts_++;
    saved_ = comm_.clock;
}

} // namespace cryo::bookmark
