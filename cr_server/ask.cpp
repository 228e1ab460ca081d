// SPDX-License-Identifier: Apache-2.0
#include "ask.hpp"

#include "base/print.hpp"
#include "cli/text.hpp"
#include "server/client.hpp"
#include "server/key.hpp"

#include <cerrno>

using cryo::Error;
using cryo::Result;
using cryo::cli::Align;
using cryo::cli::size_text;
using namespace cryo::server;

namespace {

struct Asked {
    Url url;
    Client client;
};

Result<Asked> ask(const std::string &text, const std::string &key_file)
{
    const Result<Url> url = Url::parse(text);
    if (!url)
        return url.error();
    const Result<std::string> secret = read_key(key_file);
    if (!secret)
        return secret.error();
    Result<Client> client = Client::connect(url->at, *secret, own_identity());
    if (!client)
        return client.error();
    return Asked{*url, std::move(*client)};
}

} // namespace

Result<void> list(const std::string &url, const std::string &key_file)
{
    Result<Asked> asked = ask(url, key_file);
    if (!asked)
        return asked.error();
    const Result<Listing> listing = asked->client.list(asked->url.image.series);
    if (!listing)
        return listing.error();
    cryo::cli::Columns table({Align::left, Align::right, Align::left});
    for (const StoredImage &one : listing->images)
        table.add({cryo::printable(one.image.text()), size_text(one.bytes),
                   cryo::cli::time_text(one.when_ns)});
    cryo::print("{}", table.text(0));
    cryo::print("{} of {} are taken\n", size_text(listing->used),
                listing->quota != 0 ? size_text(listing->quota) : "the disk");
    return {};
}

Result<void> remove(const std::string &url, const std::string &key_file)
{
    Result<Asked> asked = ask(url, key_file);
    if (!asked)
        return asked.error();
    if (asked->url.image.name.empty())
        return Error(EINVAL, url + ": names no image");
    const Result<StoredImage> there = asked->client.find(asked->url.image);
    return there ? asked->client.remove(there->image, there->checksum)
                 : Result<void>(there.error());
}
