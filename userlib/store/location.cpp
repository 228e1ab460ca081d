// SPDX-License-Identifier: Apache-2.0
#include "store/location.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

#include "base/printable.hpp"

namespace cryo::store {

namespace {

constexpr std::string_view scheme = "s3://";
constexpr size_t longest_key = 900; // S3 allows 1024 bytes; names below the key need some

bool is_digit_or(char c, char first, char last)
{
    return (c >= '0' && c <= '9') || (c >= first && c <= last);
}

bool is_bucket(std::string_view name)
{
    const auto allowed = [](char c) { return is_digit_or(c, 'a', 'z') || c == '-' || c == '.'; };
    return name.size() >= 3 && name.size() <= 63 && std::ranges::all_of(name, allowed) &&
           is_digit_or(name.front(), 'a', 'z') && is_digit_or(name.back(), 'a', 'z') &&
           name.find("..") == std::string_view::npos;
}

// Libraries and proxies take such components out of a path, and the signature no longer fits then.
bool has_odd_component(std::string_view key)
{
    while (!key.empty()) {
        const size_t end = std::min(key.find('/'), key.size());
        const std::string_view component = key.substr(0, end);
        if (component.empty() || component == "." || component == "..")
            return true;
        key.remove_prefix(std::min(end + 1, key.size()));
    }
    return false;
}

} // namespace

Result<Location> Location::parse(std::string_view text)
{
    const auto wrong = [&](std::string_view why) {
        return Error(EINVAL, fmt::format("{}: {}; a place in an object store is written "
                                         "s3://BUCKET/NAME",
                                         text, why));
    };
    if (!text.starts_with(scheme))
        return wrong("does not begin with s3://");
    std::string_view rest = text.substr(scheme.size());
    const size_t slash = std::min(rest.find('/'), rest.size());
    Location place{.bucket = std::string(rest.substr(0, slash)), .key = {}};
    if (!is_bucket(place.bucket))
        return wrong("no bucket can have this name");
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (rest.ends_with('/'))
        rest.remove_suffix(1);
    if (has_odd_component(rest))
        return wrong("a part of the name is empty, \".\" or \"..\"");
    if (!is_utf8(rest))
        return wrong("the name is not UTF-8");
    if (rest.size() > longest_key)
        return wrong(fmt::format("the name has more than {} bytes", longest_key));
    place.key = rest;
    return place;
}

Location Location::within(std::string_view name) const
{
    return {bucket, key.empty() ? std::string(name) : fmt::format("{}/{}", key, name)};
}

std::string Location::text() const
{
    return fmt::format("{}{}{}{}", scheme, bucket, key.empty() ? "" : "/", key);
}

std::string Location::path() const
{
    std::string path = "/" + bucket;
    std::string_view rest = key;
    while (!rest.empty()) {
        const size_t end = std::min(rest.find('/'), rest.size());
        path += "/" + encode(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return path;
}

std::string encode(std::string_view text)
{
    std::string encoded;
    for (const char c : text) {
        if (is_digit_or(c, 'a', 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
            c == '_' || c == '~')
            encoded += c;
        else
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return encoded;
}

} // namespace cryo::store
