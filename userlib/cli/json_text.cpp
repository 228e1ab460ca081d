// SPDX-License-Identifier: Apache-2.0
#include "cli/json_text.hpp"

#include "base/printable.hpp"

namespace cryo::cli {

const std::string *not_utf8(const nlohmann::json &values)
{
    for (const nlohmann::json &value : values) {
        const auto *text = value.get_ptr<const std::string *>();
        if (text != nullptr && !is_utf8(*text))
            return text;
    }
    return nullptr;
}

} // namespace cryo::cli
