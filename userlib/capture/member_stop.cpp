// SPDX-License-Identifier: Apache-2.0
// Asks a member to stop, and lets it resume.
#include "capture/member.hpp"

namespace cryo::capture {

Result<void> Member::ask_to_prepare(const agent::RequestInfo &request)
{
    asked_since_ = now_ns();
    Result<void> asked = session_->ask_to_prepare(request);
    return asked && stopped_ ? stopped_->lead() : asked;
}

Result<void> Member::ask_to_resume(int why, int signal)
{
    if (stopped_)
        stopped_->ring();
    return session_->ask_to_resume(why, signal);
}

// The first process of a pid namespace gets no such signal from itself; and a thread held by ptrace
// takes none before it is released.
bool Member::sends_itself_signals() const
{
    const Result<std::string> status = d_.proc.read("status");
    std::string_view ids = status ? field(*status, "NSpid") : std::string_view();
    uint64_t own = 0;
    while (!ids.empty())
        own = take_number(ids);
    return own > 1 && !stopped_ && session_->sends_itself_signals();
}

// A member that has been killed meanwhile cannot answer, and need not.
Result<void> Member::end_with(int signal)
{
    Result<void> asked = ask_to_resume(0, signal);
    return asked || has_ended(relation_.pid) ? Result<void>() : asked;
}

Result<void> Member::await_end()
{
    Result<void> ended = await_go_on();
    return ended || has_ended(relation_.pid) ? Result<void>() : ended;
}

void Member::let_go()
{
    if (stopped_ && ask_to_resume(0, 0))
        static_cast<void>(await_go_on());
    else
        session_->let_go();
}

Result<void> Member::await_go_on()
{
    const uint64_t begun = now_ns();
    while (stopped_ && !session_->has_answer() && now_ns() - begun < common_.silence_ns) {
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
    const uint64_t begun = now_ns();
    while (stopped_ && !session_->has_answer() && now_ns() - begun < common_.silence_ns) {
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
