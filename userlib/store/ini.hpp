// SPDX-License-Identifier: Apache-2.0
//
// The files ~/.aws/credentials and ~/.aws/config: sections of lines "name = value".
//
//     const IniSection section = ini_section(text, "default");
//     section.at("aws_access_key_id")
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cryo::store {

using IniSection = std::map<std::string, std::string, std::less<>>;

// None: the text has no such section. Lines that are indented belong to a setting with parts of its
// own, and are passed over. Of two equal names the last one counts.
std::optional<IniSection> ini_section(std::string_view text, std::string_view name);

} // namespace cryo::store
