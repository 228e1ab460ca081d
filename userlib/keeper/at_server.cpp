// SPDX-License-Identifier: Apache-2.0
#include "keeper/at_server.hpp"

#include "base/fd.hpp"
#include "server/transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>

namespace cryo::keeper {

Result<std::string> AtServer::place(const std::string &url)
{
    Result<server::Url> parsed = server::Url::parse(url);
    if (!parsed)
        return parsed.error();
    // The series may be written without a slash at its end.
    server::ImageName &image = parsed->image;
    if (image.series.empty())
        std::swap(image.series, image.name);
    if (image.series.empty() || !image.name.empty())
        return Error(EINVAL,
                     fmt::format("{}: wants a series at a server, as in cryo://n7/solver", url));
    std::string text = parsed->text();
    text.pop_back();
    return text;
}

AtServer AtServer::at(const std::string &place, uint64_t bandwidth)
{
    const Result<server::Url> url = server::Url::parse(place + "/");
    return {url ? *url : server::Url(), bandwidth};
}

server::Url AtServer::url_of(const std::string &name) const
{
    server::Url url = series_;
    url.image.name = name;
    return url;
}

Result<std::string> AtServer::newest() const
{
    const Result<std::vector<server::Stored>> there = server::list_images(series_);
    if (!there)
        return there.error();
    std::string newest;
    for (const server::Stored &one : *there) {
        if (Series::is_image_name(one.image.name) &&
            (newest.empty() || Series::comes_before(newest, one.image.name)))
            newest = one.image.name;
    }
    return newest;
}

Result<void> AtServer::send(const Series &from, const std::vector<std::string> &names,
                            const std::set<std::string> &may_go) const
{
    const Result<std::vector<server::Stored>> listed = server::list_images(series_);
    if (!listed)
        return listed.error();
    std::map<std::string, server::Stored> there;
    for (const server::Stored &one : *listed)
        there.emplace(one.image.name, one);
    for (const std::string &name : names) {
        const std::string path = from.path(name);
        const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!file)
            return Error::from_errno(path, errno);
        // What is there already is compared, and no error: of another run it may have the same
        // size.
        const Result<server::Stored> sent =
            server::send_image(url_of(name), file.get(), {.rate = bandwidth_});
        if (!sent && sent.error().code() == EEXIST)
            return sent.error().with_more(", of another run; name another series with --second");
        if (!sent)
            return sent.error();
    }
    const Result<std::vector<std::string>> here = from.names();
    if (!here)
        return here.error();
    for (const std::string &name : may_go) {
        const auto known = there.find(name);
        if (known == there.end() || std::ranges::find(*here, name) != here->end())
            continue;
        if (Result<void> removed = server::remove_image(url_of(name), known->second.checksum);
            !removed)
            return removed;
    }
    return {};
}

} // namespace cryo::keeper
