// SPDX-License-Identifier: Apache-2.0
#include "html/process.hpp"

#include <algorithm>
#include <map>

#include "facts.hpp"
#include "html/mappings.hpp"
#include "html/time_line.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

// What has no label goes on from the line before.
std::vector<Fact> joined(const std::vector<Fact> &facts)
{
    std::vector<Fact> out;
    for (const Fact &f : facts) {
        if (f.label.empty() && !out.empty())
            out.back().text += "; " + f.text;
        else
            out.push_back(f);
    }
    return out;
}

} // namespace

void ProcessSection::show(const std::string &id, const std::string &title, const Source &source,
                          const Entry &entry)
{
    auto section = page_.in("section", {{"class", "process"}, {"id", id}});
    if (!title.empty())
        page_.leaf("h2", title);
    page_.leaf("p", entry.name, {{"class", "file"}});
    if (entry.error) {
        page_.leaf("p", entry.error->text(), {{"class", "bad"}});
        return;
    }
    const Description &about = entry.about;
    facts(about);
    if (!is_file(about) && !is_foreign(about)) {
        show_memory(page_, limits_, about);
        threads(about);
        descriptors(about);
        other_files(about);
    }
    versions(about);
    if (about.header.is_delta())
        chain(source, entry);
    environment(about);
    records(about);
}

void ProcessSection::facts(const Description &about)
{
    Facts facts = facts_of(about);
    {
        auto list = page_.in("dl", {{"class", "facts"}});
        for (const Fact &f : joined(facts.about))
            add_definition(page_, f.label, f.text);
        for (const Fact &f : joined(facts.storage))
            add_definition(page_, f.label, f.text);
    }
    if (facts.notes.empty())
        return;
    auto notes = page_.in("div", {{"class", "notes"}});
    page_.leaf("h3", "To know before a restart");
    {
        auto list = page_.in("ul");
        for (size_t i = 0; i < std::min(facts.notes.size(), limits_.rows); i++)
            page_.leaf("li", facts.notes[i]);
    }
    if (facts.notes.size() > limits_.rows)
        say_left_out(page_, fmt::format("And {} more; --all lists every one.",
                                        number_text(facts.notes.size() - limits_.rows)));
}

void ProcessSection::threads(const Description &about)
{
    auto threads = about.all<Thread>();
    page_.leaf("h3", amount_text(threads.size(), "thread", "threads"));
    HtmlTable table(page_, "Threads",
                    {{"tid", Align::right},
                     {"name"},
                     {"instruction", Align::right},
                     {"stack pointer", Align::right},
                     {"system call", Align::right},
                     {"nice", Align::right}});
    const size_t shown = std::min(threads.size(), limits_.threads);
    for (size_t i = 0; i < shown; i++) {
        const Thread &t = threads[i];
        table.add({fmt::format("{}", t.tid), t.name, fmt::format("{:#x}", t.ip),
                   fmt::format("{:#x}", t.sp),
                   t.syscall < 0 ? std::string("–") : fmt::format("{}", t.syscall),
                   fmt::format("{}", t.nice)});
    }
    if (shown < threads.size())
        table.add_total({fmt::format("+ {}", number_text(threads.size() - shown)),
                         "more threads; --all lists every one", "", "", "", ""});
}

void ProcessSection::descriptors(const Description &about)
{
    auto rows = descriptor_rows(about);
    page_.leaf("h3", amount_text(rows.size(), "descriptor", "descriptors"));
    const size_t shown = std::min(rows.size(), limits_.descriptors);
    {
        HtmlTable table(page_, "Descriptors",
                        {{"fd", Align::right},
                         {"open file", Align::right},
                         {"mode"},
                         {"position", Align::right},
                         {"kind"},
                         {"file"},
                         {"contents"}});
        for (size_t i = 0; i < shown; i++) {
            const DescriptorRow &d = rows[i];
            const std::string fd = fmt::format("{}", d.descriptor.fd);
            const std::string number = fmt::format("#{}", d.descriptor.open_file);
            if (d.open_file)
                table.add({fd, number, d.mode, fmt::format("{}", d.open_file->position),
                           d.file ? name_of(d.file->kind) : "missing", d.name, d.contents});
            else
                table.add({fd, number, "", "", "missing", "", ""});
        }
    }
    if (shown == rows.size())
        return;
    std::map<std::string, uint64_t> kinds;
    for (size_t i = shown; i < rows.size(); i++)
        kinds[rows[i].file ? name_of(rows[i].file->kind) : "missing"]++;
    std::string text;
    for (const auto &[kind, count] : kinds)
        text += fmt::format("{}{} ×{}", text.empty() ? "" : ", ", kind, number_text(count));
    say_left_out(page_, fmt::format("The first {} are listed. The other {}: {}. --all lists every "
                                    "one.",
                                    number_text(shown), number_text(rows.size() - shown), text));
}

void ProcessSection::other_files(const Description &about)
{
    auto rows = other_file_rows(about);
    if (rows.empty())
        return;
    auto details = page_.in("details");
    page_.leaf("summary", amount_text(rows.size(), "file that is mapped or executed only",
                                      "files that are mapped or executed only"));
    const size_t shown = std::min(rows.size(), limits_.descriptors);
    {
        HtmlTable table(page_, "Files that are mapped or executed only",
                        {{"kind"}, {"size", Align::right}, {"file"}, {"contents"}});
        for (size_t i = 0; i < shown; i++)
            table.add({name_of(rows[i].file.kind), size_text(rows[i].file.size), rows[i].name,
                       rows[i].contents});
    }
    if (shown < rows.size())
        say_left_out(page_, fmt::format("And {} more; --all lists every one.",
                                        number_text(rows.size() - shown)));
}

// A page is made to be shown to others, and variables hold passwords and tokens.
void ProcessSection::environment(const Description &about)
{
    auto variables = about.environment();
    if (variables.empty())
        return;
    if (limits_.rows != SIZE_MAX) {
        page_.leaf("p",
                   fmt::format("The environment ({}) is not on this page, as it may hold secrets; "
                               "--all shows it.",
                               amount_text(variables.size(), "variable", "variables")),
                   {{"class", "left-out"}});
        return;
    }
    auto details = page_.in("details");
    page_.leaf("summary", amount_text(variables.size(), "variable of the environment",
                                      "variables of the environment"));
    auto list = page_.in("ul", {{"class", "plain"}});
    for (const std::string &v : variables)
        page_.leaf("li", v);
}

void ProcessSection::records(const Description &about)
{
    struct Sum {
        uint64_t count = 0;
        uint64_t bytes = 0;
    };
    std::map<std::string, Sum> types;
    for (const StoredRecord &r : about.records) {
        const char *type = name_of(r.type);
        Sum &sum = types[type ? type : "unknown"];
        sum.count++;
        sum.bytes += r.payload.size();
    }
    auto details = page_.in("details");
    page_.leaf("summary", amount_text(about.records.size(), "record", "records"));
    HtmlTable table(page_, "Records",
                    {{"type"}, {"records", Align::right}, {"size", Align::right}});
    for (const auto &[type, sum] : types)
        table.add({type, number_text(sum.count), size_text(sum.bytes)});
}

// Of a service directory of cr_delta.
void ProcessSection::versions(const Description &about)
{
    auto versions = about.all<DeltaVersion>();
    if (versions.empty())
        return;
    page_.leaf("h3", amount_text(versions.size(), "version of the file", "versions of the file"));
    TimeLine line("What each version took, over time");
    for (const DeltaVersion &v : versions)
        line.add({.at = v.created,
                  .bytes = v.stored,
                  .label = fmt::format("version {}", v.number),
                  .part = v.base_number != 0 && v.base_number != v.number});
    line.draw(page_);
    const size_t first = versions.size() - std::min(versions.size(), limits_.rows);
    HtmlTable table(page_, "Versions",
                    {{"version", Align::right},
                     {"taken"},
                     {"based on", Align::right},
                     {"changed blocks", Align::right},
                     {"file", Align::right},
                     {"stored", Align::right},
                     {"state"},
                     {"path"}});
    if (first > 0)
        table.add_total({fmt::format("+ {}", number_text(first)),
                         "earlier versions; --all lists every one", "", "", "", "", "", ""});
    for (size_t i = first; i < versions.size(); i++) {
        const DeltaVersion &v = versions[i];
        table.add({fmt::format("{}", v.number), time_text(v.created),
                   v.base_number ? fmt::format("{}", v.base_number) : std::string("–"),
                   fmt::format("{} of {}", number_text(v.changed), number_text(v.blocks)),
                   size_text(v.size), size_text(v.stored), name_of(v.state), v.path});
    }
}

// The images that a restart needs besides this one, the oldest first.
void ProcessSection::chain(const Source &source, const Entry &entry)
{
    struct Link {
        std::string name;
        int64_t created;
        uint64_t length;
        PageCounts pages = {};
    };
    std::vector<Link> links;
    std::string missing;
    const auto add = [&](Image &image) {
        Link link{.name = image.name(),
                  .created = image.header().created,
                  .length = image.footer().length};
        if (auto s = image.statistics())
            link.pages = {s->data_pages, s->zero_pages, s->base_pages};
        links.push_back(std::move(link));
    };
    auto own = input_.open(source, entry);
    if (!own)
        missing = own.error().text();
    Image *at = own ? own->get() : nullptr;
    while (at) {
        add(*at);
        if (!at->header().is_delta())
            break;
        if (links.size() > kMaxDeltaDepth) {
            missing = "too many images are based on each other";
            break;
        }
        auto base = at->base();
        if (!base)
            missing = base.error().text();
        at = base ? *base : nullptr;
    }
    page_.leaf("h3", missing.empty()
                         ? amount_text(links.size(), "image in a chain", "images in a chain")
                         : "A chain of images that is not whole");
    if (!missing.empty())
        page_.leaf("p", missing, {{"class", "bad"}});
    std::ranges::reverse(links);
    TimeLine line("What each image of the chain took, over time");
    for (const Link &l : links)
        line.add({.at = l.created,
                  .bytes = l.length,
                  .label = l.name,
                  .part = l.pages.base > 0,
                  .current = &l == &links.back()});
    line.draw(page_);
    if (links.empty())
        return;
    HtmlTable table(page_, "Chain",
                    {{"taken"},
                     {"size", Align::right},
                     {"pages in it", Align::right},
                     {"zeros", Align::right},
                     {"in its base", Align::right},
                     {"image"}});
    for (const Link &l : links)
        table.add({time_text(l.created), size_text(l.length), pages_text(l.pages.data),
                   pages_text(l.pages.zero), pages_text(l.pages.base), l.name});
}

} // namespace cryo::inspect
