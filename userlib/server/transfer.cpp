// SPDX-License-Identifier: Apache-2.0
#include "server/transfer.hpp"

#include "cli/place.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace cryo::server {

namespace {

using nlohmann::json;

constexpr const char *helper_name = "server-client";

// In the folder of libraries, or beside a program that is in it, as the keeper is.
Result<std::string> find_helper()
{
    const std::string usual = cli::library(std::string("cryo/") + helper_name);
    for (const std::string &path : {usual, cli::command(helper_name)}) {
        if (access(path.c_str(), X_OK) == 0)
            return path;
    }
    return Error(ENOENT, usual + ": is not there, and images are sent and fetched by it");
}

// The image is the program's standard input, whatever the direction.
Result<json> run(std::vector<std::string> words, int image, const TellProgress &progress)
{
    const Result<std::string> program = find_helper();
    if (!program)
        return program.error();
    words.insert(words.begin(), *program);
    return cli::run_helper(std::move(words), {.input = image, .progress = progress});
}

Stored stored_in(const json &said)
{
    return {.image = {said.at("series"), said.at("name")},
            .number = said.at("number"),
            .bytes = said.at("bytes"),
            .checksum = said.at("checksum")};
}

Result<Stored> run_for_one(std::vector<std::string> words, int image, const TellProgress &progress)
{
    const Result<json> said = run(std::move(words), image, progress);
    if (!said)
        return said.error();
    return stored_in(*said);
}

} // namespace

Result<void> check_sending(const Url &url, Check what)
{
    std::vector<std::string> words = {"check", url.text()};
    if (what == Check::server)
        words.emplace_back("--connect");
    const Result<json> said = run(std::move(words), -1, {});
    return said ? Result<void>() : Result<void>(said.error());
}

Result<Stored> send_image(const Url &url, int fd, const Sending &how)
{
    std::vector<std::string> words = {"put", url.text(), fmt::format("--rate={}", how.rate)};
    if (how.replace)
        words.emplace_back("--replace");
    return run_for_one(std::move(words), fd, how.progress);
}

Result<Stored> fetch_image(const Url &url, int fd, const TellProgress &progress)
{
    return run_for_one({"get", url.text()}, fd, progress);
}

Result<std::vector<Stored>> list_images(const Url &url)
{
    const Result<json> said = run({"list", url.text()}, -1, {});
    if (!said)
        return said.error();
    std::vector<Stored> all;
    for (const json &one : said->at("images"))
        all.push_back(stored_in(one));
    return all;
}

Result<void> remove_image(const Url &url, const std::string &checksum)
{
    const Result<json> said = run({"remove", url.text(), "--checksum", checksum}, -1, {});
    return said ? Result<void>() : Result<void>(said.error());
}

Result<std::vector<std::string>> push_job(const Url &series, const std::string &directory,
                                          const Sending &how)
{
    const Result<json> said = run(
        {"push-job", series.text(), fmt::format("--rate={}", how.rate), "--directory=" + directory},
        -1, how.progress);
    if (!said)
        return said.error();
    return said->value("notices", std::vector<std::string>());
}

Result<void> pull_job(const Url &series, const std::string &directory)
{
    const Result<json> said = run({"pull-job", series.text(), "--directory=" + directory}, -1, {});
    return said ? Result<void>() : Result<void>(said.error());
}

Result<bool> has_job(const Url &series)
{
    const Result<json> said = run({"has-job", series.text()}, -1, {});
    return said ? Result<bool>(said->value("there", false)) : said.error();
}

} // namespace cryo::server
