// SPDX-License-Identifier: Apache-2.0
//
// The whole page: one file, without a script, that asks the network for nothing. Its policy allows
// the style sheet alone, by its digest.
#include <algorithm>

#include "base/print.hpp"
#include "base/write_all.hpp"
#include "destination.hpp"
#include "html/job.hpp"
#include "html/time_line.hpp"
#include "style.gen.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

// What one word of the command line names.
struct Subject {
    std::optional<JobSource> job = {};
    Source source = {};
};

class Page
{
  public:
    Page(const Input &input, const Options &options) : input_(input), options_(options)
    {
        for (const std::string &file : options.files)
            add(file);
        size_t processes = 0;
        for (const Subject &s : subjects_)
            processes += s.job ? s.job->shown().images.size() : s.source.entries.size();
        limits_ = PageLimits::of(processes, options.all);
    }

    std::string text()
    {
        Html page(limits_.text);
        page.begin_document();
        {
            auto html = page.in("html", {{"lang", "en"}});
            head(page);
            body(page);
        }
        return page.text();
    }
    bool good() const { return good_; }

  private:
    void add(const std::string &file)
    {
        Subject subject;
        auto job = JobSource::find(file);
        if (!job) {
            subject.source = {.name = file, .error = job.error()};
        } else if (*job) {
            if (options_.pid)
                subject.source = {.name = file,
                                  .error = Error(EINVAL, file + ": is a job's; --pid is for the "
                                                                "image of one of its ranks")};
            else
                subject.job = std::move(*job);
        } else {
            subject.source = input_.load(file);
        }
        if (!subject.job)
            good_ = complain_of(subject.source) && good_;
        subjects_.push_back(std::move(subject));
    }

    // The only subject's, or how many there are.
    std::string title() const
    {
        if (subjects_.size() > 1)
            return fmt::format("{} checkpoints", subjects_.size());
        const Subject &only = subjects_.front();
        if (only.job)
            return "MPI job " + only.job->title(input_);
        if (only.source.entries.size() != 1 || only.source.entries.front().error)
            return only.source.name;
        return title_of(only.source.entries.front().about);
    }

    static std::string title_of(const Description &about)
    {
        if (about.header.role == Role::file) {
            auto file = about.one<Delta>();
            return file.name.empty() ? "versions of a file" : std::string(file.name);
        }
        auto process = about.one<Process>();
        return fmt::format("{}, pid {}", process.comm, process.pid);
    }

    // Empty where the page has the title already.
    std::string section_title(const Source &source, const Entry &entry) const
    {
        if (subjects_.size() == 1 && source.entries.size() == 1)
            return "";
        return entry.error ? entry.name : title_of(entry.about);
    }

    void head(Html &page) const
    {
        auto head = page.in("head");
        page.single("meta", {{"charset", "utf-8"}});
        page.single("meta",
                    {{"http-equiv", "Content-Security-Policy"},
                     {"content", fmt::format("default-src 'none'; style-src '{}'; base-uri 'none'; "
                                             "form-action 'none'",
                                             kStyleDigest)}});
        page.single("meta", {{"name", "viewport"}, {"content", "width=device-width"}});
        page.single("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
        page.single("meta", {{"name", "referrer"}, {"content", "no-referrer"}});
        page.leaf("title", title());
        page.style(kStyleSheet);
    }

    void body(Html &page)
    {
        auto body = page.in("body");
        {
            auto header = page.in("header");
            page.leaf("p", "Cryo checkpoint", {{"class", "kind"}});
            page.leaf("h1", title());
        }
        auto main = page.in("main");
        overview(page);
        size_t number = 0;
        for (const Subject &s : subjects_) {
            if (s.job)
                good_ = JobSection(page, limits_, input_, *s.job).show() && good_;
            else
                images(page, s.source, number);
        }
    }

    // A table of several images, and their time line.
    void overview(Html &page) const
    {
        std::vector<std::vector<HtmlCell>> rows;
        size_t number = 0;
        for (const Subject &s : subjects_) {
            if (s.source.error)
                rows.push_back({s.source.name, "", "", "", "", "", "", "cannot be read"});
            for (const Entry &e : s.source.entries)
                rows.push_back(row_of(e, number++));
            for (const SnapshotMember &m : s.source.members)
                if (m.state != MemberState::saved)
                    rows.push_back({s.source.name, fmt::format("{}", m.pid), m.comm, "", "", "", "",
                                    name_of(m.state)});
        }
        if (rows.size() < 2)
            return;
        auto section = page.in("section", {{"class", "overview"}, {"id", "overview"}});
        page.leaf("h2", "Images");
        time_line(page);
        HtmlTable table(page, "Images",
                        {{"image"},
                         {"pid", Align::right},
                         {"program"},
                         {"threads", Align::right},
                         {"descriptors", Align::right},
                         {"memory", Align::right},
                         {"size", Align::right},
                         {"taken"}});
        const size_t shown = std::min(rows.size(), limits_.rows);
        for (size_t i = 0; i < shown; i++)
            table.add(rows[i]);
        if (shown < rows.size())
            table.add_total(
                {fmt::format("+ {} more; --all lists every one", number_text(rows.size() - shown)),
                 "", "", "", "", "", "", ""});
    }

    void time_line(Html &page) const
    {
        TimeLine line("Size of the images, over time");
        std::vector<int64_t> times;
        for (const Subject &s : subjects_)
            for (const Entry &e : s.source.entries) {
                if (e.error)
                    continue;
                times.push_back(e.about.header.created);
                line.add({.at = e.about.header.created,
                          .bytes = e.about.footer.length,
                          .label = e.name,
                          .part = e.about.header.is_delta()});
            }
        // One checkpoint of several processes has no line.
        constexpr int64_t kSecond = 1'000'000'000;
        if (!times.empty() && std::ranges::max(times) / kSecond > std::ranges::min(times) / kSecond)
            line.draw(page);
    }

    std::vector<HtmlCell> row_of(const Entry &entry, size_t number) const
    {
        const HtmlCell name =
            number < limits_.processes ? HtmlCell(entry.name, id_of(number)) : HtmlCell(entry.name);
        if (entry.error)
            return {name, "", "", "", "", "", "", "cannot be read"};
        const Description &about = entry.about;
        auto process = about.one<Process>();
        uint64_t present = 0;
        for (const Region &r : about.all<Region>())
            present += r.present;
        return {name,
                fmt::format("{}", process.pid),
                process.comm,
                number_text(about.all<Thread>().size()),
                number_text(about.all<Descriptor>().size()),
                pages_text(present),
                size_text(about.footer.length),
                time_text(about.header.created) + (about.header.is_delta() ? ", delta" : "")};
    }

    static std::string id_of(size_t number) { return fmt::format("image-{}", number); }

    void images(Html &page, const Source &source, size_t &number) const
    {
        if (source.error) {
            auto section = page.in("section");
            page.leaf("h2", source.name);
            page.leaf("p", source.error->text(), {{"class", "bad"}});
        }
        ProcessSection section(page, limits_, input_);
        for (const Entry &e : source.entries) {
            if (number == limits_.processes)
                say_left_out(page, fmt::format("Only {} images have a section of their own; choose "
                                               "another process with --pid, or ask for all of them "
                                               "with --all.",
                                               number_text(number)));
            if (number < limits_.processes)
                section.show(id_of(number), section_title(source, e), source, e);
            number++;
        }
    }

    const Input &input_;
    const Options &options_;
    PageLimits limits_ = {};
    std::vector<Subject> subjects_ = {};
    bool good_ = true;
};

Result<void> write(const std::string &text, const std::string &output)
{
    auto to = Destination::open(output.empty() ? "-" : output);
    if (!to)
        return to.error();
    auto ok = to->write(as_bytes(text));
    if (ok)
        ok = to->finish();
    if (!ok)
        to->discard();
    return ok;
}

} // namespace

int show_page(const Input &input, const Options &options)
{
    Page page(input, options);
    auto ok = write(page.text(), options.output);
    if (!ok)
        complain(ok.error(), options.output);
    return ok && page.good() ? kGood : kDamaged;
}

} // namespace cryo::inspect
