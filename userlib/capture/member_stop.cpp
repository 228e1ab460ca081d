// SPDX-License-Identifier: Apache-2.0
// Asking a member to stop, and letting it go on.
#include "capture/member.hpp"

namespace cryo::capture {

Result<void> Member::ask_to_prepare(const agent::RequestInfo &request)
{
    asked_since_ = now_ns();
    Result<void> asked = session_->ask_to_prepare(request);
    return asked && stopped_ ? stopped_->lead() : asked;
}

Result<void> Member::ask_to_resume(int why)
{
    if (stopped_)
        stopped_->ring();
    return session_->ask_to_resume(why);
}

void Member::let_go()
{
    if (stopped_ && ask_to_resume(0))
        static_cast<void>(await_go_on());
    else
        session_->let_go();
}

Result<void> Member::await_go_on()
{
    while (stopped_ && !session_->has_answer()) {
        if (Result<void> early = check_deadline(common_.deadline); !early)
            return early;
        stopped_->see_out();
    }
    Result<void> resumed = session_->await_resumed();
    if (stopped_ && resumed)
        resumed = stopped_->put_back();
    stopped_.reset();
    if (!has_callbacks_)
        turn_ = Turn();
    return resumed;
}

Result<void> Member::callbacks_done()
{
    Result<void> done = has_callbacks_ ? session_->callbacks_done() : Result<void>();
    turn_ = Turn();
    return done;
}

Result<void> Member::await_stop()
{
    while (stopped_ && !session_->has_answer()) {
        if (Result<void> followed = stopped_->follow(); !followed)
            return followed;
    }
    Result<uint64_t> threads = session_->stop();
    if (!threads)
        return threads.error();
    threads_ = *threads;
    return {};
}

} // namespace cryo::capture
