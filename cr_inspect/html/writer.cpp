// SPDX-License-Identifier: Apache-2.0
#include "html/writer.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "beginning.hpp"

namespace cryo::inspect {

namespace {

// Control characters and what is not UTF-8 are made visible first.
std::string escaped(std::string_view text)
{
    std::string out;
    for (char c : printable(text)) {
        switch (c) {
        case '&':
            out += "&amp;";
            break;
        case '<':
            out += "&lt;";
            break;
        case '>':
            out += "&gt;";
            break;
        case '"':
            out += "&quot;";
            break;
        case '\'':
            out += "&#39;";
            break;
        default:
            out += c;
        }
    }
    return out;
}

} // namespace

Html::Element::~Element()
{
    page_.out_ += fmt::format("</{}>\n", name_.text());
}

Html::Element Html::in(HtmlName name, HtmlAttributes attributes)
{
    begin(name, attributes);
    return {*this, name};
}

void Html::leaf(HtmlName name, std::string_view text, HtmlAttributes attributes)
{
    begin(name, attributes);
    this->text(text);
    out_ += fmt::format("</{}>", name.text());
}

void Html::single(HtmlName name, HtmlAttributes attributes)
{
    begin(name, attributes);
    // In SVG the slash ends the element, in HTML it means nothing.
    out_.back() = '/';
    out_ += ">\n";
}

void Html::text(std::string_view text)
{
    const std::string_view shown = beginning(text, longest_text_);
    out_ += escaped(shown);
    if (shown.size() < text.size())
        out_ += fmt::format("… ({} bytes)", text.size());
}

void Html::begin_document()
{
    out_ += "<!doctype html>\n";
}

void Html::style(std::string_view style_sheet)
{
    out_ += fmt::format("<style>{}</style>\n", style_sheet);
}

void Html::begin(HtmlName name, HtmlAttributes attributes)
{
    out_ += '<';
    out_ += name.text();
    for (const HtmlAttribute &a : attributes) {
        out_ += ' ';
        out_ += a.name.text();
        out_ += "=\"";
        out_ += escaped(a.value);
        out_ += '"';
    }
    out_ += '>';
}

} // namespace cryo::inspect
