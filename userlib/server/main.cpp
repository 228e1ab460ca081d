// SPDX-License-Identifier: Apache-2.0
//
// server-client VERB URL: speaks with a server of images for one command (transfer.hpp). The
// image is standard input, also to write it there. Says by lines of JSON how far it is and how it
// ends.
#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/error_json.hpp"
#include "server/client.hpp"
#include "server/job.hpp"
#include "server/key.hpp"
#include "store/found.hpp"

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace {

using cryo::Error;
using cryo::Result;
using namespace cryo::server;
using nlohmann::json;

constexpr const char *latest_name = "latest";

struct Words {
    std::string verb = {};
    std::string url = {};
    bool replace = false;
    bool connect = false;
    std::string directory = {};
    uint64_t rate = 0;
    std::string checksum = {};
};

void say(const json &object)
{
    cryo::print("{}\n", object.dump(-1, ' ', true, json::error_handler_t::replace));
    fflush(stdout);
}

void tell(uint64_t done, uint64_t total)
{
    say({{"done", done}, {"of", total}});
}

json described(const StoredImage &stored)
{
    return {{"series", stored.image.series},
            {"name", stored.image.name},
            {"number", stored.number},
            {"bytes", stored.bytes},
            {"checksum", stored.checksum}};
}

Result<json> described(const Result<StoredImage> &stored)
{
    return stored ? Result<json>(described(*stored)) : stored.error();
}

// The last image that the server was given of a series; ENOENT: it has none.
Result<ImageName> last_of(Client &client, const Url &url)
{
    const Result<Listing> listing = client.list(url.image.series);
    if (!listing)
        return listing.error();
    const StoredImage *last = nullptr;
    for (const StoredImage &one : listing->images) {
        if (last == nullptr || one.number > last->number)
            last = &one;
    }
    if (last == nullptr)
        return Error(ENOENT, url.text() + ": the server has no image of that series");
    return last->image;
}

Result<json> get(Client &client, const Url &url)
{
    Result<StoredImage> got = client.get(url.image, STDIN_FILENO, tell);
    if (got || got.error().code() != ENOENT || url.image.series.empty() ||
        url.image.name != latest_name)
        return described(got);
    const Result<ImageName> last = last_of(client, url);
    return last ? described(client.get(*last, STDIN_FILENO, tell)) : last.error();
}

Result<json> list(Client &client, const Url &url)
{
    const Result<Listing> listing = client.list(url.image.series);
    if (!listing)
        return listing.error();
    json images = json::array();
    for (const StoredImage &one : listing->images)
        images.push_back(described(one));
    return json{{"images", std::move(images)}, {"used", listing->used}, {"quota", listing->quota}};
}

Result<json> push(const Words &words, const std::string &series, const Connect &connect)
{
    const Result<cryo::store::Contents> contents = cryo::store::contents_of(words.directory);
    if (!contents)
        return contents.error();
    if (contents->kind != cryo::store::Kind::snapshot)
        return Error(EINVAL, words.directory + ": has no snapshots of a job");
    const Result<JobAtServer> there =
        push_job(connect, series, *contents, {.rate = words.rate, .progress = tell});
    if (!there)
        return there.error();
    return json{
        {"bytes", there->manifest.bytes()}, {"sent", there->sent}, {"notices", there->notices}};
}

// Of the snapshots of a job, which are a series.
Result<json> work_on_job(const Words &words, const Connect &connect)
{
    const Result<Url> url = Url::parse_series(words.url);
    if (!url)
        return url.error();
    const std::string &series = url->image.series;
    if (words.verb == "push-job")
        return push(words, series, connect);
    Result<Client> client = connect();
    if (!client)
        return client.error();
    if (words.verb == "has-job") {
        const Result<bool> there = has_job(*client, series);
        return there ? Result<json>(json{{"there", *there}}) : there.error();
    }
    const Result<JobAtServer> there = pull_job(*client, series, words.directory, tell);
    return there ? Result<json>(json{{"bytes", there->manifest.bytes()}}) : there.error();
}

Result<json> work(const Words &words)
{
    const Result<Url> url = Url::parse(words.url);
    if (!url)
        return url.error();
    const Result<std::string> secret = read_key(usual_key_file());
    if (!secret)
        return secret.error();
    if (words.verb == "check" && !words.connect)
        return json{{"key", true}};
    const Connect connect = [&] { return Client::connect(url->at, *secret, own_identity()); };
    if (words.verb.ends_with("-job"))
        return work_on_job(words, connect);
    Result<Client> client = connect();
    if (!client)
        return client.error();
    if (words.verb == "check")
        return json{{"key", true}};
    if (words.verb == "list")
        return list(*client, *url);
    if (url->image.name.empty())
        return Error(EINVAL, words.url + ": names no image");
    if (words.verb == "get")
        return get(*client, *url);
    if (words.verb == "remove") {
        const Result<void> removed = client->remove(url->image, words.checksum);
        return removed ? Result<json>(json{{"removed", true}}) : removed.error();
    }
    return described(client->put(url->image, STDIN_FILENO,
                                 {.existing = words.replace ? Existing::replace : Existing::refuse,
                                  .rate = words.rate,
                                  .progress = tell}));
}

int run(int argc, char **argv)
{
    CLI::App app("Speaks with a server of images, for other commands.", "server-client");
    Words words;
    app.add_option("VERB", words.verb, "What is to be done")
        ->required()
        ->check(CLI::IsMember(
            {"check", "put", "get", "list", "remove", "push-job", "pull-job", "has-job"}));
    app.add_option("URL", words.url, "Which image, or series")->required();
    app.add_flag("--connect", words.connect, "Of check: the server, too, not only the key for it");
    app.add_flag("--replace", words.replace, "Of put: an image of that name is replaced");
    app.add_option("--directory", words.directory, "Of push-job and pull-job: the snapshots here");
    app.add_option("--rate", words.rate, "Of put and push-job: at most so many bytes a second");
    app.add_option("--checksum", words.checksum, "Of remove: only the image that has it");
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    const Result<json> done = work(words);
    if (done) {
        say(*done);
        return 0;
    }
    say({{"error", cryo::cli::error_json(done.error())}});
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole("server-client", [&] { return run(argc, argv); });
}
