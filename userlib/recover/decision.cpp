// SPDX-License-Identifier: Apache-2.0
#include "recover/decision.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/wait.h>

namespace cryo::recover {

std::string end_text(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return fmt::format("was killed by {}", signal_name(WTERMSIG(wait_status)));
    return fmt::format("ended with status {}", WEXITSTATUS(wait_status));
}

bool may_pass(int wait_status)
{
    constexpr int passing[] = {EAGAIN, EBUSY, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC, EPERM};
    return WIFEXITED(wait_status) &&
           std::ranges::find(passing, WEXITSTATUS(wait_status)) != std::end(passing);
}

// What ends with 0 has done its work, whether or not anybody could tell that it was back: a job
// whose daemon was killed, or that some rank could not reach, tells nothing. But Open MPI 5.0's
// launcher ends so, too, if it has lost what it had started on another node: then ranks are
// missing.
bool Decision::is_fault(const End &end) const
{
    const int own = end.launcher.value_or(end.wait_status);
    if (end.was_asked)
        return false;
    if (own == 0)
        return end.is_unfinished;
    if (!end.was_back || end.left_others)
        return true;
    if (WIFEXITED(own) && policy_.exits.contains(WEXITSTATUS(own)))
        return true;
    return WIFSIGNALED(end.wait_status) && policy_.signals.contains(WTERMSIG(end.wait_status));
}

Action Decision::after(const End &end, const Offer &there)
{
    if (!is_fault(end))
        return {.what = Do::end};
    if (!there.images.empty())
        return from_an_image(end, there);
    if (!from_.empty())
        return {.what = Do::give_up, .why = "its images are gone"};
    if (there.has_others)
        return {.what = Do::give_up,
                .why =
                    "there are images that keeper.json does not list; cr_restart brings it back"};
    return from_the_beginning(end);
}

// A new image shows that the program has come further than the image that it comes from: the count
// begins anew. Whether it has come further than ever, the number of images shows that it has made.
Action Decision::from_an_image(const End &end, const Offer &there)
{
    const std::vector<Image> &images = there.images;
    const Image &newest = images.back();
    const bool is_new = newest.name != from_;
    const uint64_t came = is_new ? there.made - std::min(made_, there.made) : 0;
    made_ = there.made;
    if (is_new)
        times_ = 0;
    if (came > lead_) {
        lead_ = 0;
        floor_ = newest.made;
    } else {
        lead_ -= came;
        floor_ = std::min(floor_, newest.made);
    }
    Action next = {.what = Do::restart, .image = newest.name};
    if (times_ >= policy_.limit) {
        const std::string tried =
            fmt::format("it was brought back from {} {} times", from_, times_);
        const auto older = std::find_if(images.rbegin(), images.rend(),
                                        [this](const Image &one) { return one.made < floor_; });
        if (end.may_pass)
            return {.what = Do::give_up,
                    .why = tried + ", the last time in vain for a reason outside of the image; "
                                   "bring it back by hand when that has passed"};
        if (older == images.rend())
            return {.what = Do::give_up,
                    .why = tried + " and has come no further, and there is no older image left"};
        for (auto one = images.rbegin(); one != older; one++)
            next.abandoned.push_back(one->name);
        lead_ += newest.made - older->made;
        floor_ = older->made;
        next.image = older->name;
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
