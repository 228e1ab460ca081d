// SPDX-License-Identifier: Apache-2.0
#include "redundancy/racks.hpp"

#include "base/contents.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <toml++/toml.h>

namespace cryo::redundancy {

namespace {

Error wrong(const std::string &path, const toml::source_region &where, std::string_view what)
{
    return {EINVAL, fmt::format("{}:{}: {}", path, where.begin.line, what)};
}

Result<void> add_rack(Racks &racks, const std::string &name, const toml::node &value)
{
    const toml::array *nodes = value.as_array();
    if (!nodes)
        return wrong(racks.file, value.source(),
                     fmt::format("rack '{}' has to be a list of nodes", name));
    for (const toml::node &one : *nodes) {
        const auto *node = one.as_string();
        if (!node)
            return wrong(racks.file, one.source(),
                         fmt::format("rack '{}' has a node that is no text", name));
        const auto [at, is_new] = racks.of_node.emplace(node->get(), name);
        if (!is_new)
            return wrong(racks.file, one.source(),
                         fmt::format("node '{}' is in rack '{}' already", at->first, at->second));
    }
    return {};
}

Result<Racks> racks_in(const toml::table &all, const std::string &path)
{
    Racks racks{.file = path, .of_node = {}};
    const toml::node *list = all.get("racks");
    if (!list || !list->is_table())
        return wrong(path, list ? list->source() : all.source(),
                     "the file has to have a table [racks]");
    for (const auto &[key, value] : *list->as_table()) {
        if (Result<void> added = add_rack(racks, std::string(key.str()), value); !added)
            return added.error();
    }
    for (const auto &[key, value] : all) {
        if (key.str() != "racks")
            return wrong(path, value.source(),
                         fmt::format("'{}' is nothing that belongs here", key.str()));
    }
    return racks;
}

} // namespace

Result<Racks> parse_racks(std::string_view text, const std::string &path)
{
    try {
        return racks_in(toml::parse(text), path);
    } catch (const toml::parse_error &error) {
        return wrong(path, error.source(), error.description());
    }
}

Result<Racks> read_racks(const std::string &path)
{
    const Result<std::string> text = contents(path);
    if (!text)
        return text.error();
    return parse_racks(*text, path);
}

Result<std::vector<std::string>> racks_of(const std::vector<std::string> &nodes, const Racks &racks)
{
    std::vector<std::string> names;
    for (const std::string &node : nodes) {
        const auto found = racks.of_node.find(node);
        if (found == racks.of_node.end())
            return Error(ENOENT, fmt::format("{}: says nothing of node {}; add it to its rack",
                                             racks.file, node));
        names.push_back(found->second);
    }
    return names;
}

} // namespace cryo::redundancy
