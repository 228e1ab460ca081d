// SPDX-License-Identifier: Apache-2.0
#include "capture/member/member.hpp"

#include <fmt/format.h>

namespace cryo::capture {

std::unique_ptr<Member> Member::find(const Relation &relation, Turn turn, Common &common)
{
    std::unique_ptr<Member> made(new Member(relation, std::move(turn), common));
    made->process_.find_agent();
    return made;
}

std::unique_ptr<Member> Member::adopt(const Relation &relation, Turn turn, Fd connection,
                                      Common &common)
{
    std::unique_ptr<Member> made(new Member(relation, std::move(turn), common));
    made->process_.adopt(std::move(connection));
    return made;
}

Result<void> Member::describe()
{
    d_.process.stopped = process_.is_stopped();
    d_.process.stop_signal = static_cast<uint32_t>(process_.signal_of_stop());
    if (Result<void> described = capture::describe(d_, process_.agent()); !described)
        return described;
    for (const image::Thread &thread : d_.threads) {
        if (Result<void> mended =
                process_.mend_frame(static_cast<pid_t>(thread.tid), RemoteAddress(thread.sp));
            !mended)
            return mended;
    }
    return {};
}

Result<void> Member::save(image::ImageWriter &writer, const ImageFacts &facts)
{
    if (Result<void> saved = memory_.save_frozen(writer); !saved)
        return saved;
    if (Result<void> identified = identify_files(d_); !identified)
        return identified;
    return write_records(writer, d_, number_, facts);
}

std::string Member::about_changes() const
{
    const std::optional<PageDelta> &delta = memory_.delta();
    if (!delta || !delta->stores())
        return {};
    const Unchanged &unchanged = freezing_.changes().unchanged();
    std::string text = fmt::format("process {}: changed pages found by {}, {} pages not read",
                                   relation().pid, unchanged.tracker, delta->left());
    if (unchanged.audit)
        text += fmt::format("; {} of them audited, and {} copied before the stop", delta->audited(),
                            freezing_.changes().audited_pages());
    if (freezing_.is_staged())
        text += fmt::format("; {} copied in the stop, {} before", freezing_.staging().pages(),
                            freezing_.staging().early_pages());
    return text;
}

} // namespace cryo::capture
