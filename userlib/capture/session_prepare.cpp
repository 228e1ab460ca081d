// SPDX-License-Identifier: Apache-2.0
// The part of a session before the stop: the program's callbacks and their results.
#include "capture/session.hpp"

#include "base/passing.hpp"
#include "libcr.h"

#include <cerrno>
#include <fmt/format.h>
#include <poll.h>

namespace cryo::capture {

using agent::Op;
using agent::Reply;

namespace {

Error failure(pid_t pid, int kind, int code)
{
    switch (kind) {
    case CR_CHECKPOINT_TEMP_FAILURE:
        return Error(code, fmt::format("process {} cannot be saved now: a callback of it asks to "
                                       "try again later (error {})",
                                       pid, code));
    case CR_CHECKPOINT_PERM_FAILURE:
        return Error(code, fmt::format("process {} cannot be saved any more: a callback of it says "
                                       "so (error {}); it has been killed",
                                       pid, code));
    default:
        if (code == ENOMEM)
            return Error(code, fmt::format("process {} has no thread that could run its callbacks "
                                           "of THREAD context: there was no memory for one, or it "
                                           "was forked in such a callback",
                                           pid));
        return Error(code, fmt::format("process {}: a thread does not begin its callbacks; it "
                                       "blocks the checkpoint signal or waits in the kernel",
                                       pid));
    }
}

} // namespace

Result<void> AgentSession::ask_to_prepare(const agent::RequestInfo &request)
{
    if (Result<void> sent =
            connection_->send(agent::PrepareRequest{.features = agent::all_features});
        !sent)
        return sent;
    return connection_->send_rest(bytes_of(request));
}

Result<AgentSession::Prepared> AgentSession::prepared()
{
    Reply answer = {};
    connection_->expect(connection_->silence_ns());
    const Result<void> got = connection_->packet(&answer, sizeof(answer));
    if (!got && (got.error().code() == CR_EVERSION || got.error().code() == ETIME))
        return got.error();
    if (!got)
        return Error(
            ESRCH,
            fmt::format("process {} ended, or executed another program, before it could be saved",
                        pid()),
            Reason::has_ended);
    if (answer.magic != agent::protocol_magic)
        return connection_->other_protocol();
    connection_->note_release(answer);
    switch (answer.op) {
    case Op::accepted:
        return Prepared{.op = answer.op};
    case Op::forward:
        return Prepared{.op = answer.op,
                        .scope = static_cast<int>(answer.count),
                        .target = static_cast<pid_t>(answer.value)};
    case Op::prepare:
        if (answer.result == 0)
            return Prepared{.op = answer.op,
                            .callbacks = (answer.value & agent::with_callbacks) != 0};
        if ((answer.value & 0xff) == CR_CHECKPOINT_OMIT)
            return Prepared{.op = answer.op, .omits = true};
        return failure(pid(), static_cast<int>(answer.value & 0xff),
                       static_cast<int>(-answer.result));
    case Op::called_off:
        return called_off_after(pid(), answer.value);
    default:
        return connection_->other_protocol();
    }
}

bool AgentSession::has_answer(int milliseconds) const
{
    pollfd look = {connection_->fd(), POLLIN, 0};
    return poll(&look, 1, milliseconds) > 0;
}

} // namespace cryo::capture
