// SPDX-License-Identifier: Apache-2.0
#include "server/url.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fmt/format.h>
#include <utility>

namespace cryo::server {

namespace {

constexpr std::string_view between = "://";

bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_host_character(char c)
{
    return is_letter_or_digit(c) || std::string_view(".-_").find(c) != std::string_view::npos;
}

bool is_address_character(char c) // of IPv6, with a zone
{
    return is_host_character(c) || c == ':' || c == '%';
}

} // namespace

bool is_image_name(std::string_view text)
{
    return !text.empty() && text.size() <= most_name &&
           (is_letter_or_digit(text.front()) || text.front() == '_') &&
           std::ranges::all_of(text, [](char c) {
               return is_letter_or_digit(c) ||
                      std::string_view("._+@-").find(c) != std::string_view::npos;
           });
}

std::string scheme_of(std::string_view text)
{
    const size_t end = text.find(between);
    if (end == std::string_view::npos || end == 0 ||
        !std::ranges::all_of(text.substr(0, end), is_letter_or_digit))
        return {};
    return std::string(text.substr(0, end));
}

Result<HostAndPort> HostAndPort::parse(std::string_view text, std::string_view what)
{
    const Error wrong(EINVAL, fmt::format("{}: wants a host, perhaps with a port, as in n7, "
                                          "n7:12796 or [::1]:12796, not '{}'",
                                          what, text));
    HostAndPort at;
    std::string_view port;
    const bool bracketed = text.starts_with('[');
    const size_t end = bracketed ? text.find(']') : text.find(':');
    if (bracketed && end == std::string_view::npos)
        return wrong;
    at.host = text.substr(bracketed ? 1 : 0, bracketed ? end - 1 : end);
    if (end != std::string_view::npos)
        port = text.substr(bracketed ? end + 1 : end);
    if (at.host.empty() ||
        !std::ranges::all_of(at.host, bracketed ? is_address_character : is_host_character))
        return wrong;
    if (port.empty())
        return at;
    port.remove_prefix(port.starts_with(':') ? 1 : 0);
    const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), at.port);
    if (error != std::errc() || stop != port.data() + port.size())
        return wrong;
    return at;
}

std::string HostAndPort::text() const
{
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                               : fmt::format("[{}]:{}", host, port);
}

Result<Url> Url::parse(std::string_view text)
{
    const std::string what(text);
    if (scheme_of(text) != url_scheme)
        return Error(EINVAL, what + ": does not begin with cryo://");
    text.remove_prefix(std::string_view(url_scheme).size() + between.size());
    const size_t slash = text.find('/');
    const Result<HostAndPort> at = HostAndPort::parse(text.substr(0, slash), what);
    if (!at)
        return at.error();
    Url url = {.at = *at};
    const std::string_view path =
        slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
    const size_t inner = path.find('/');
    url.image.name = path.substr(inner == std::string_view::npos ? 0 : inner + 1);
    if (inner != std::string_view::npos)
        url.image.series = path.substr(0, inner);
    if ((inner != std::string_view::npos && !is_image_name(url.image.series)) ||
        (!url.image.name.empty() && !is_image_name(url.image.name)))
        return Error(
            EINVAL, fmt::format("{}: an image at a server is named NAME or SERIES/NAME, each of at "
                                "most {} letters, digits and . _ + @ -, without a dot in front",
                                what, most_name));
    return url;
}

Result<Url> Url::parse_series(std::string_view text)
{
    Result<Url> url = parse(text);
    if (!url)
        return url;
    if (url->image.series.empty())
        std::swap(url->image.series, url->image.name);
    if (url->image.series.empty() || !url->image.name.empty())
        return Error(EINVAL,
                     fmt::format("{}: wants a series at a server, as in cryo://n7/solver", text));
    return url;
}

std::string Url::text() const
{
    return text_of(image);
}

std::string Url::text_of(const ImageName &other) const
{
    return fmt::format("{}{}{}/{}", url_scheme, between, at.text(), other.text());
}

} // namespace cryo::server
