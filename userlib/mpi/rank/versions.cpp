// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/versions.hpp"

#include "base/clock.hpp"
#include "mpi/rank/engine.hpp"

#include <algorithm>
#include <poll.h>
#include <sched.h>

namespace cryo::mpi::rank {

using bookmark::Version;

namespace {

int64_t now_ms()
{
    return clock_ns(CLOCK_MONOTONIC) / 1'000'000;
}

Version look_at(uint64_t number)
{
    const Engine::Busy busy(*engine);
    return engine->rank().versions().state(number);
}

// A daemon that does not know its place in the tree yet drops the request, and one that is busy
// with another checkpoint may end that without this version in it: so the request is repeated until
// it is answered. The tree recognizes requests that have been served already.
class Asking
{
  public:
    void again()
    {
        if (now_ms() < next_)
            return;
        const Engine::Busy busy(*engine);
        if (!engine->rank().pending())
            engine->rank().versions().ask();
        pause_ = std::min<int64_t>(pause_ * 2, longest_ms);
        next_ = now_ms() + pause_;
    }

  private:
    static constexpr int64_t longest_ms = 2000;
    int64_t pause_ = 25;
    int64_t next_ = now_ms() + pause_;
};

} // namespace

Version save_version()
{
    uint64_t number = 0;
    {
        const Engine::Busy busy(*engine);
        number = engine->rank().versions().begin();
    }
    Asking asking;
    for (unsigned rounds = 0;; rounds++) {
        if (must_attend)
            engine->stand_still();
        const Version version = look_at(number);
        if (version != Version::open || engine->is_lost())
            return version == Version::open ? Version::failed : version;
        // Other ranks may need this library's progress to reach their call.
        engine->progress();
        engine->rest(rounds);
        asking.again();
    }
}

void ask_for_checkpoint()
{
    const Engine::Busy busy(*engine);
    engine->rank().versions().ask();
}

uint32_t restarts()
{
    return engine->rank().versions().restarts();
}

} // namespace cryo::mpi::rank
