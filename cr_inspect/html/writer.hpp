// SPDX-License-Identifier: Apache-2.0
//
// Html is a piece of a page, and the only place where text becomes HTML.
//
//     Html page(longest_text);
//     {
//         auto row = page.in("tr", {{"class", "rank"}});
//         page.leaf("td", name_from_an_image);
//     }
//     write(page.text());
//
// The names of elements and attributes are literals, which the compiler checks; everything else is
// escaped. An element ends with its scope. So no text of an image, whatever it is, can become an
// element, an attribute or a script, and a page is always well-formed.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace cryo::inspect {

// The name of an element or an attribute: a literal of letters, digits and '-'.
class HtmlName
{
  public:
    consteval HtmlName(const char *name) : name_(name)
    {
        if (name_.empty())
            throw "a name is empty";
        for (char c : name_)
            if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
                c != '-')
                throw "a name has other characters than letters, digits and '-'";
    }
    constexpr std::string_view text() const { return name_; }

  private:
    std::string_view name_;
};

struct HtmlAttribute {
    HtmlName name;
    std::string value = {};
};

using HtmlAttributes = std::initializer_list<HtmlAttribute>;

class Html
{
  public:
    class Element
    {
      public:
        Element(Html &page, HtmlName name) : page_(page), name_(name) {}
        ~Element();
        Element(const Element &) = delete;
        Element &operator=(const Element &) = delete;

      private:
        Html &page_;
        HtmlName name_;
    };

    // Longer texts are cut, and say so; values of attributes are not.
    explicit Html(size_t longest_text) : longest_text_(longest_text) {}

    [[nodiscard]] Element in(HtmlName name, HtmlAttributes attributes = {});
    // An element with nothing but text.
    void leaf(HtmlName name, std::string_view text, HtmlAttributes attributes = {});
    // An element that HTML does not end: meta, br. Of SVG: one without contents.
    void single(HtmlName name, HtmlAttributes attributes = {});
    void text(std::string_view text);

    void append(const Html &piece) { out_ += piece.out_; }
    void begin_document();                    // <!doctype html>
    void style(std::string_view style_sheet); // our own, as it is

    const std::string &text() const { return out_; }
    bool empty() const { return out_.empty(); }

  private:
    void begin(HtmlName name, HtmlAttributes attributes);

    std::string out_;
    size_t longest_text_;
};

} // namespace cryo::inspect
