// SPDX-License-Identifier: Apache-2.0
#include "store/settings.hpp"

#include "base/contents.hpp"
#include "store/ini.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <optional>

namespace cryo::store {

namespace {

// Allows an endpoint without encryption that is not on this machine.
constexpr const char *plain_variable = "CRYO_STORE_PLAIN_HTTP";

class Reader
{
  public:
    Reader(const Settings::Variable &variable, const Settings::File &file)
        : variable_(variable), file_(file)
    {}

    Result<Settings> read();

  private:
    Result<void> read_profile();
    Result<std::optional<IniSection>> section_of(const char *named_by, const char *usual,
                                                 const std::string &section) const;
    Result<void> take_keys();
    Result<void> take_endpoint();
    std::string first_of(std::initializer_list<const char *> variables,
                         std::string_view setting) const;

    const Settings::Variable &variable_;
    const Settings::File &file_;
    std::string profile_ = "default";
    bool profile_known_ = false;
    IniSection credentials_, config_;
    Settings made_;
};

Result<std::optional<IniSection>> Reader::section_of(const char *named_by, const char *usual,
                                                     const std::string &section) const
{
    std::string path = variable_(named_by);
    const bool named = !path.empty();
    if (!named) {
        const std::string home = variable_("HOME");
        if (home.empty())
            return std::optional<IniSection>();
        path = home + usual;
    }
    const Result<std::string> text = file_(path);
    if (!text && text.error().code() == ENOENT && !named)
        return std::optional<IniSection>();
    if (!text)
        return text.error();
    return ini_section(*text, section);
}

Result<void> Reader::read_profile()
{
    for (const char *name : {"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) {
        if (std::string said = variable_(name); !said.empty()) {
            profile_ = std::move(said);
            break;
        }
    }
    Result<std::optional<IniSection>> keys =
        section_of("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials", profile_);
    if (!keys)
        return keys.error();
    Result<std::optional<IniSection>> config =
        section_of("AWS_CONFIG_FILE", "/.aws/config",
                   profile_ == "default" ? profile_ : "profile " + profile_);
    if (!config)
        return config.error();
    profile_known_ = keys->has_value() || config->has_value();
    credentials_ = keys->value_or(IniSection());
    config_ = config->value_or(IniSection());
    return {};
}

std::string Reader::first_of(std::initializer_list<const char *> variables,
                             std::string_view setting) const
{
    for (const char *name : variables) {
        if (std::string said = variable_(name); !said.empty())
            return said;
    }
    for (const IniSection *section : {&credentials_, &config_}) {
        if (const auto at = section->find(setting); at != section->end())
            return at->second;
    }
    return {};
}

Result<void> Reader::take_keys()
{
    made_.access_key = variable_("AWS_ACCESS_KEY_ID");
    made_.secret_key = variable_("AWS_SECRET_ACCESS_KEY");
    // A token belongs to the keys that it came with.
    if (!made_.access_key.empty()) {
        made_.session_token = variable_("AWS_SESSION_TOKEN");
    } else {
        made_.access_key = first_of({}, "aws_access_key_id");
        made_.secret_key = first_of({}, "aws_secret_access_key");
        made_.session_token = first_of({}, "aws_session_token");
    }
    if (!made_.access_key.empty() && !made_.secret_key.empty())
        return {};
    if (!profile_known_ && profile_ != "default")
        return Error(EACCES, fmt::format("no credentials for the object store: neither "
                                         "~/.aws/credentials nor ~/.aws/config has a profile "
                                         "\"{}\"",
                                         profile_));
    return Error(EACCES, "no credentials for the object store: set AWS_ACCESS_KEY_ID and "
                         "AWS_SECRET_ACCESS_KEY, or write them into ~/.aws/credentials");
}

bool is_loopback(std::string_view host)
{
    if (host.starts_with("[::1]"))
        return true;
    const std::string_view name = host.substr(0, host.find(':'));
    const bool digits = name.find_first_not_of("0123456789.") == std::string_view::npos;
    return name == "localhost" || (digits && name.starts_with("127."));
}

Result<void> Reader::take_endpoint()
{
    made_.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
    if (made_.endpoint.empty())
        made_.endpoint = fmt::format("https://s3.{}.amazonaws.com{}", made_.region,
                                     made_.region.starts_with("cn-") ? ".cn" : "");
    if (made_.endpoint.ends_with('/'))
        made_.endpoint.pop_back();
    const std::string_view whole = made_.endpoint;
    const bool plain = whole.starts_with("http://");
    const size_t scheme = plain ? 7 : whole.starts_with("https://") ? 8 : 0;
    made_.host = whole.substr(scheme);
    if (scheme == 0 || made_.host.empty() ||
        made_.host.find_first_of("/?#@ \t\r\n") != std::string::npos)
        return Error(EINVAL, fmt::format("{}: is no endpoint of an object store; it is "
                                         "https://HOST or https://HOST:PORT",
                                         whole));
    if (plain && !is_loopback(made_.host) && variable_(plain_variable) != "1")
        return Error(EPERM, fmt::format("{}: is without encryption, and images contain the "
                                        "memory of programs; use https, or set {}=1",
                                        whole, plain_variable));
    return {};
}

Result<Settings> Reader::read()
{
    if (Result<void> good = read_profile(); !good)
        return good.error();
    if (Result<void> good = take_keys(); !good)
        return good.error();
    made_.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
    if (made_.region.empty())
        made_.region = "us-east-1";
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    };
    if (!std::ranges::all_of(made_.region, allowed))
        return Error(EINVAL, fmt::format("{}: is no region", made_.region));
    if (Result<void> good = take_endpoint(); !good)
        return good.error();
    made_.certificates = first_of({"AWS_CA_BUNDLE"}, "ca_bundle");
    return made_;
}

} // namespace

Result<Settings> Settings::from(const Variable &variable, const File &file)
{
    return Reader(variable, file).read();
}

Result<Settings> Settings::from_environment()
{
    return from(
        [](const char *name) {
            const char *value = sys::own_variable(name);
            return std::string(value != nullptr ? value : "");
        },
        [](const std::string &path) { return contents(path); });
}

} // namespace cryo::store
