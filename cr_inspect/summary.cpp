// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

void print_fact(const Output &out, std::string_view label, const std::string &text)
{
    out.print("  {} {}\n", out.faint(fmt::format("{:<12}", label)), text);
}

void print_memory(const Description &about, const Output &out)
{
    auto kinds = memory_by_kind(about);
    if (kinds.empty())
        return;
    bool delta = about.header.is_delta();
    Columns table(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
    auto row = [&](const std::string &name, const MappingSum &s) {
        table.add({name, fmt::format("{}", s.mappings), pages_text(s.size), pages_text(s.present),
                   pages_text(s.stored.data), delta ? pages_text(s.stored.base) : ""});
    };
    table.add({out.bold("memory"), "regions", "size", "present", "saved", delta ? "in base" : ""});
    MappingSum total;
    for (const auto &[kind, sum] : kinds) {
        row(name_of(kind), sum);
        total += sum;
    }
    if (kinds.size() > 1)
        row("total", total);
    out.print("{}", table.text(2));
}

} // namespace

void show_summary(const Entry &entry, const Output &out)
{
    const Description &about = entry.about;
    out.print("{}  {}image of a {}, {}\n", out.bold(printable(entry.name)),
              about.header.is_delta() ? "delta " : "", is_file(about) ? "file" : "process",
              size_text(about.footer.length));
    Facts facts = facts_of(about);
    for (const Fact &f : facts.about)
        print_fact(out, f.label, f.text);
    if (!is_file(about) && !is_foreign(about))
        print_memory(about, out);
    for (const Fact &f : facts.storage)
        print_fact(out, f.label, f.text);
    for (const std::string &note : facts.notes)
        print_fact(out, "note", note);
}

} // namespace cryo::inspect
