// SPDX-License-Identifier: Apache-2.0
#include "cli/stored.hpp"

#include "cli/place.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::cli {

namespace {

using nlohmann::json;

constexpr const char *helper_name = "cr_store";

// Beside this command; or beside the commands, as seen from a program in the folder of libraries.
Result<std::string> find_helper(const std::string &place)
{
    const std::string usual = command(helper_name);
    for (const std::string &path :
         {usual, command(std::string(CRYO_BIN_FROM_HELPERS "/") + helper_name)}) {
        if (access(path.c_str(), X_OK) == 0)
            return path;
    }
    return Error(ENOENT, fmt::format("{}: object stores are spoken to by {}, which is not here "
                                     "({}); it is in the package cryo-store",
                                     place, helper_name, usual));
}

Result<json> ask(const std::string &verb, const std::string &place,
                 const std::vector<std::string> &more, const TellProgress &progress = {})
{
    const Result<std::string> program = find_helper(place);
    if (!program)
        return program.error();
    std::vector<std::string> words = {*program, verb, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_helper(std::move(words), {.quiet = true, .progress = progress});
}

Result<std::string> text_in(const json &said, const char *name)
{
    const auto text = said.find(name);
    if (text == said.end() || !text->is_string())
        return Error(EPROTO, std::string(helper_name) + ": does not say what it has done");
    return text->get<std::string>();
}

} // namespace

bool is_stored(std::string_view named)
{
    return named.starts_with("s3://");
}

Result<Brought> bring_stored(const std::string &place, const std::string &directory)
{
    const Result<json> said = ask("pull", place, {"--", place, directory});
    if (!said)
        return said.error();
    Result<std::string> path = text_in(*said, "path");
    Result<std::string> from = text_in(*said, "place");
    if (!path || !from)
        return path ? from.error() : path.error();
    return Brought{std::move(*path), std::move(*from)};
}

Result<void> check_stored(const std::string &place, bool connect)
{
    std::vector<std::string> words = {"--", place};
    if (connect)
        words.insert(words.begin(), "--connect");
    const Result<json> said = ask("check", place, words);
    return said ? Result<void>() : Result<void>(said.error());
}

Result<Pushed> push_stored(const std::string &path, const std::string &place,
                           const PushOptions &options)
{
    const Result<json> said = ask(
        "push", place, {"--lines", fmt::format("--byte-rate={}", options.rate), "--", path, place},
        options.progress);
    Result<std::string> where = said ? text_in(*said, "place") : said.error();
    if (!where)
        return where.error();
    return Pushed{std::move(*where), said->value("notices", std::vector<std::string>())};
}

Result<std::vector<StoredPlace>> list_stored(const std::string &place)
{
    const Result<json> said = ask("list", place, {"--", place});
    if (!said)
        return said.error();
    std::vector<StoredPlace> places;
    for (const json &one : said->value("places", json::array()))
        places.push_back({.place = one.value("place", std::string()),
                          .bytes = one.value("bytes", uint64_t(0)),
                          .is_begun = !one.value("complete", false) && !one.contains("error")});
    return places;
}

Result<void> remove_stored(const std::string &place)
{
    const Result<json> said = ask("remove", place, {"--", place});
    return said ? Result<void>() : Result<void>(said.error());
}

} // namespace cryo::cli
