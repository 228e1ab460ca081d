// SPDX-License-Identifier: Apache-2.0
//
// Names of images at a server of images (docs/stores.md), and where it is:
//
//     cryo://HOST[:PORT]/[SERIES/]NAME
//
//     Result<Url> url = Url::parse("cryo://n7/solver/context.000003");
//     url->host, url->port, url->image.series, url->image.name
#pragma once

#include "base/result.hpp"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace cryo::server {

inline constexpr uint16_t usual_port = 12796;
inline constexpr size_t most_name = 100; // bytes

// Both are names of files everywhere: letters, digits and . _ + @ - with a letter, a digit or _ in
// front.
bool is_image_name(std::string_view text);

struct ImageName {
    std::string series = {}; // "": it is in none
    std::string name = {};

    auto operator<=>(const ImageName &) const = default;
    std::string text() const { return series.empty() ? name : series + "/" + name; }
};

struct HostAndPort {
    std::string host;
    uint16_t port = usual_port;

    // "127.0.0.1:12796", "[::1]:12796", "n7"; `what` is what the error is about.
    static Result<HostAndPort> parse(std::string_view text, std::string_view what);
    std::string text() const;
};

struct Url {
    HostAndPort at;
    ImageName image = {}; // both may be empty: all images, or all of a series ("cryo://n7/solver/")

    static Result<Url> parse(std::string_view text);
    // Of a series, with or without a slash at its end: the image has no name.
    static Result<Url> parse_series(std::string_view text);
    std::string text() const;
    std::string text_of(const ImageName &other) const; // at this server
};

// The scheme in front of "://"; "": it is no URL.
std::string scheme_of(std::string_view text);
inline constexpr const char *url_scheme = "cryo";

} // namespace cryo::server
