// SPDX-License-Identifier: Apache-2.0
#include "recover/decision.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

namespace cryo::recover {

std::string end_text(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return fmt::format("was killed by {}", signal_name(WTERMSIG(wait_status)));
    return fmt::format("ended with status {}", WEXITSTATUS(wait_status));
}

bool Decision::is_fault(const End &end) const
{
    if (end.was_asked)
        return false;
    if (!end.was_back || end.left_others)
        return true;
    return WIFSIGNALED(end.wait_status) ? policy_.signals.contains(WTERMSIG(end.wait_status))
                                        : policy_.exits.contains(WEXITSTATUS(end.wait_status));
}

Action Decision::after(const End &end, const std::vector<std::string> &images)
{
    if (!is_fault(end))
        return {.what = Do::end};
    if (!images.empty())
        return from_an_image(images);
    if (!from_.empty())
        return {.what = Do::give_up, .why = "its images are gone"};
    return from_the_beginning(end);
}

// An image that is newer than the one that the program comes from shows that it has come further.
Action Decision::from_an_image(const std::vector<std::string> &images)
{
    Action next = {.what = Do::restart, .image = images.back()};
    if (images.back() != from_) {
        times_ = 0;
    } else if (times_ >= policy_.limit) {
        if (images.size() == 1)
            return {.what = Do::give_up,
                    .why =
                        fmt::format("it was brought back from {} {} times and has come no further, "
                                    "and there is no older image",
                                    from_, times_)};
        next.image = images[images.size() - 2];
        next.abandoned = {images.back()};
        times_ = 0;
    }
    from_ = next.image;
    times_++;
    return next;
}

Action Decision::from_the_beginning(const End &end)
{
    if (!policy_.begins_again)
        return {.what = Do::give_up, .why = "there is no image yet"};
    if (!end.can_begin_again)
        return {.what = Do::give_up,
                .why = "there is no image yet, and from the beginning it would miss what was read "
                       "of its standard input"};
    if (times_ >= policy_.limit)
        return {.what = Do::give_up,
                .why = fmt::format("it was begun again {} times and has come to no image", times_)};
    times_++;
    return {.what = Do::begin_again};
}

} // namespace cryo::recover
