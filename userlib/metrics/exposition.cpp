// SPDX-License-Identifier: Apache-2.0
#include "metrics/exposition.hpp"

#include "base/printable.hpp"

#include <fmt/format.h>

namespace cryo::metrics {

namespace {

std::string quoted(std::string_view text)
{
    std::string result;
    for (const char c : printable(text)) {
        if (c == '\\' || c == '"')
            result += '\\';
        result += c;
    }
    return result;
}

std::string text_of(const Labels &labels)
{
    std::string result;
    for (const auto &[name, value] : labels)
        result += fmt::format("{}{}=\"{}\"", result.empty() ? "" : ",", name, quoted(value));
    return result.empty() ? result : "{" + result + "}";
}

} // namespace

void Exposition::add(const Family &family, const Labels &labels, double value)
{
    const auto [lines, fresh] = lines_.try_emplace(&family);
    if (fresh)
        order_.push_back(&family);
    lines->second +=
        fmt::format("{}{} {:.{}f}\n", family.name, text_of(labels), value, family.digits);
}

std::string Exposition::text() const
{
    std::string all;
    for (const Family *family : order_)
        all += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{3}", family->name, family->help,
                           family->type == Type::counter ? "counter" : "gauge", lines_.at(family));
    return all;
}

} // namespace cryo::metrics
