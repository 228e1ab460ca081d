// SPDX-License-Identifier: Apache-2.0
#include "elsewhere/job_place.hpp"

#include "server/transfer.hpp"
#include "store/location.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::elsewhere {

namespace {

// Of a text that parse() has taken.
server::Url url_of(const std::string &text)
{
    const Result<server::Url> url = server::Url::parse_series(text);
    return url ? *url : server::Url();
}

} // namespace

bool JobPlace::is_meant(std::string_view text)
{
    return !server::scheme_of(text).empty();
}

Result<JobPlace> JobPlace::parse(const std::string &text)
{
    const std::string scheme = server::scheme_of(text);
    if (scheme == server::url_scheme) {
        const Result<server::Url> url = server::Url::parse_series(text);
        if (!url)
            return url.error();
        std::string whole = url->text();
        whole.pop_back();
        return JobPlace(std::move(whole));
    }
    if (!cli::is_stored(text))
        return Error(ENOTSUP,
                     fmt::format("{}: snapshots of jobs are sent to cryo:// and s3://", text));
    const Result<store::Location> location = store::Location::parse(text);
    if (!location)
        return location.error();
    if (location->key.empty())
        return Error(EINVAL, fmt::format("{}: is a bucket; name a place in it, as {}/job1", text,
                                         location->text()));
    return JobPlace(location->text());
}

Result<void> JobPlace::check(bool connect) const
{
    if (is_stored())
        return cli::check_stored(text_, connect);
    return server::check_sending(url_of(text_),
                                 connect ? server::Check::server : server::Check::key);
}

Result<bool> JobPlace::has_snapshots() const
{
    if (!is_stored())
        return server::has_job(url_of(text_));
    const Result<std::vector<cli::StoredPlace>> places = cli::list_stored(text_);
    if (!places)
        return places.error();
    return std::ranges::any_of(
        *places, [&](const cli::StoredPlace &one) { return one.place == text_ && !one.is_begun; });
}

Result<std::vector<std::string>> JobPlace::push(const std::string &directory,
                                                const cli::PushOptions &how) const
{
    if (!is_stored())
        return server::push_job(url_of(text_), directory,
                                {.rate = how.rate, .progress = how.progress});
    Result<cli::Pushed> pushed = cli::push_stored(directory, text_, how);
    if (!pushed)
        return pushed.error();
    return std::move(pushed->notices);
}

Result<std::string> JobPlace::pull(const std::string &directory) const
{
    if (is_stored()) {
        Result<cli::Brought> brought = cli::bring_stored(text_, directory);
        if (!brought)
            return brought.error();
        return std::move(brought->path);
    }
    if (Result<void> pulled = server::pull_job(url_of(text_), directory); !pulled)
        return pulled.error();
    return directory;
}

} // namespace cryo::elsewhere
