// SPDX-License-Identifier: Apache-2.0
#include "keeper/remote_series.hpp"

#include "base/fd.hpp"
#include "cli/stored.hpp"
#include "server/transfer.hpp"
#include "store/location.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace cryo::keeper {

namespace {

class AtServer final : public RemoteSeries
{
  public:
    AtServer(server::Url series, uint64_t bandwidth)
        : series_(std::move(series)), bandwidth_(bandwidth)
    {}

  protected:
    Result<Images> list() const override
    {
        const Result<std::vector<server::Stored>> there = server::list_images(series_);
        if (!there)
            return there.error();
        Images images;
        for (const server::Stored &one : *there)
            images[one.image.name] = {one.bytes, one.checksum, false};
        return images;
    }

    Result<void> put(const std::string &name, const std::string &path) const override
    {
        const Fd file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (!file)
            return Error::from_errno(path, errno);
        const Result<server::Stored> sent =
            server::send_image(url_of(name), file.get(), {.rate = bandwidth_});
        if (!sent && sent.error().code() == EEXIST)
            return sent.error().with_more(", of another run; name another series with --second");
        return sent ? Result<void>() : Result<void>(sent.error());
    }

    // What is there already is compared, and no error: of another run it may have the same size.
    bool compares() const override { return true; }

    Result<void> remove(const std::string &name, const Image &image) const override
    {
        return server::remove_image(url_of(name), image.checksum);
    }

  private:
    server::Url url_of(const std::string &name) const
    {
        server::Url url = series_;
        url.image.name = name;
        return url;
    }

    server::Url series_;
    uint64_t bandwidth_;
};

class InStore final : public RemoteSeries
{
  public:
    InStore(store::Location series, uint64_t bandwidth)
        : series_(std::move(series)), bandwidth_(bandwidth)
    {}

  protected:
    Result<Images> list() const override
    {
        const Result<std::vector<cli::StoredPlace>> there = cli::list_stored(series_.text());
        if (!there)
            return there.error();
        const std::string above = series_.text() + "/";
        Images images;
        for (const cli::StoredPlace &one : *there) {
            if (one.place.starts_with(above))
                images[one.place.substr(above.size())] = {one.bytes, {}, one.is_begun};
        }
        return images;
    }

    Result<void> put(const std::string &name, const std::string &path) const override
    {
        const Result<cli::Pushed> sent =
            cli::push_stored(path, series_.within(name).text(), {.rate = bandwidth_});
        return sent ? Result<void>() : Result<void>(sent.error());
    }

    Result<void> remove(const std::string &name, const Image & /*image*/) const override
    {
        return cli::remove_stored(series_.within(name).text());
    }

  private:
    store::Location series_;
    uint64_t bandwidth_;
};

Result<std::string> place_at_server(const std::string &url)
{
    const Result<server::Url> parsed = server::Url::parse_series(url);
    if (!parsed)
        return parsed.error();
    std::string text = parsed->text();
    text.pop_back();
    return text;
}

Result<std::string> place_in_store(const std::string &url)
{
    const Result<store::Location> parsed = store::Location::parse(url);
    if (!parsed)
        return parsed.error();
    if (parsed->key.empty())
        return Error(EINVAL, fmt::format("{}: is a bucket; name a series in it, as in {}/solver",
                                         url, parsed->text()));
    return parsed->text();
}

} // namespace

Result<std::string> RemoteSeries::place(const std::string &url)
{
    const std::string scheme = server::scheme_of(url);
    if (scheme == server::url_scheme)
        return place_at_server(url);
    if (cli::is_stored(url))
        return place_in_store(url);
    return Error(ENOTSUP, fmt::format("images are copied to a directory, to cryo:// or to s3://, "
                                      "not to {}://",
                                      scheme));
}

std::shared_ptr<const RemoteSeries> RemoteSeries::at(const std::string &place, uint64_t bandwidth)
{
    if (cli::is_stored(place)) {
        const Result<store::Location> location = store::Location::parse(place);
        return std::make_shared<InStore>(location ? *location : store::Location(), bandwidth);
    }
    const Result<server::Url> url = server::Url::parse_series(place);
    return std::make_shared<AtServer>(url ? *url : server::Url(), bandwidth);
}

Result<std::string> RemoteSeries::newest() const
{
    const Result<Images> there = list();
    if (!there)
        return there.error();
    std::string newest;
    for (const auto &[name, image] : *there) {
        if (!image.is_begun && Series::is_image_name(name) &&
            (newest.empty() || Series::comes_before(newest, name)))
            newest = name;
    }
    return newest;
}

Result<void> RemoteSeries::send(const Series &from, const std::vector<std::string> &names,
                                const std::set<std::string> &may_go) const
{
    const Result<Images> there = list();
    if (!there)
        return there.error();
    for (const std::string &name : names) {
        const std::string path = from.path(name);
        struct stat status = {};
        if (lstat(path.c_str(), &status) != 0)
            return Error::from_errno(path, errno);
        const auto known = there->find(name);
        if (!compares() && known != there->end() && !known->second.is_begun &&
            known->second.bytes == static_cast<uint64_t>(status.st_size))
            continue;
        if (Result<void> sent = put(name, path); !sent)
            return sent;
    }
    const Result<std::vector<std::string>> here = from.names();
    if (!here)
        return here.error();
    for (const std::string &name : may_go) {
        const auto known = there->find(name);
        if (known == there->end() || std::ranges::find(*here, name) != here->end())
            continue;
        if (Result<void> removed = remove(name, known->second); !removed)
            return removed;
    }
    return {};
}

} // namespace cryo::keeper
