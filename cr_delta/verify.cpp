// SPDX-License-Identifier: Apache-2.0
// Checks every byte of images, of their bases, and of the files that they restore.
#include <set>

#include "cli/progress.hpp"
#include "delta/plain_file.hpp"
#include "verbs.hpp"

namespace cryo::delta {

using namespace cryo::cli;
using namespace cryo::image;

namespace {

struct Verdict {
    std::string path;
    uint32_t number = 0;
    std::vector<std::string> findings = {};
    std::string passed = {};
};

class Checker
{
  public:
    Checker(const Options &options, Finder finder) : options_(options), finder_(std::move(finder))
    {}

    Verdict check(const std::string &path)
    {
        Verdict out{.path = path};
        auto opened = finder_.open(path);
        if (!opened) {
            out.findings.push_back(opened.error().text());
            return out;
        }
        Version &version = **opened;
        out.number = version.about().number;
        look_at(version, out);
        return out;
    }

  private:
    void look_at(Version &version, Verdict &out)
    {
        auto note = [&](const Result<void> &result) {
            if (!result)
                out.findings.push_back(result.error().text());
        };
        const About &about = version.about();
        auto chain = version.check_chain();
        if (!chain)
            out.findings.push_back(chain.error().text());
        check_image(version.image(), out);
        if (!out.findings.empty())
            return;
        ProgressLine line(out.path, !options_.quiet);
        note(version.check_blocks(line.reporter()));
        if (about.is_complete() || about.base == DeltaBase::image) {
            note(check_contents(version, nullptr, line.reporter()));
        } else if (about.base == DeltaBase::file && !options_.bases.empty()) {
            auto base = PlainFile::open(options_.bases[0]);
            if (!base)
                return note(base.error());
            note(check_contents(version, base->get(), line.reporter()));
        }
        out.passed = fmt::format("{} of {} blocks, {}", about.changed, about.blocks(),
                                 count_text(*chain, "image", "images"));
    }

    // The image and those below it; each is read once, however many are based on it.
    void check_image(Image &image, Verdict &out)
    {
        if (!seen_.insert(image.header().id).second)
            return;
        for (const Finding &f : image.verify())
            out.findings.push_back(fmt::format("{}: at {:#x}: {}", image.name(), f.offset, f.text));
        auto about = about_of(image);
        if (!about || about->base != DeltaBase::image)
            return;
        if (auto base = image.base())
            check_image(**base, out);
    }

    const Options &options_;
    Finder finder_;
    std::set<Digest> seen_;
};

void print(const Verdict &v, const Output &out)
{
    std::string number = v.number ? fmt::format("version {}: ", v.number) : "";
    if (v.findings.empty()) {
        out.print("{}: {}{}: {}\n", printable(v.path), number, out.good("good"), v.passed);
        return;
    }
    out.print("{}: {}{}\n", printable(v.path), number,
              out.bad(count_text(v.findings.size(), "finding", "findings")));
    for (const std::string &text : v.findings)
        out.print("  {}\n", printable(text));
}

} // namespace

Result<void> verify(const Options &options)
{
    std::unique_ptr<Service> service;
    std::vector<std::string> paths;
    if (!options.service.empty()) {
        auto opened = Service::open(options.service, Service::Use::read);
        if (!opened)
            return opened.error();
        service = std::move(*opened);
        for (const std::string &what : options.arguments) {
            auto entry = service->find(what);
            if (!entry)
                return entry.error();
            paths.push_back(entry->path);
        }
        if (options.arguments.empty())
            for (const Entry &e : service->state().entries)
                if (e.state != DeltaState::removed)
                    paths.push_back(e.path);
    } else {
        paths = options.arguments;
    }
    Checker checker(options,
                    service ? service->finder(options.bases) : Finder{.named = options.bases});
    Output out;
    Json images = Json::array();
    size_t bad = 0;
    for (const std::string &path : paths) {
        Verdict verdict = checker.check(path);
        bad += !verdict.findings.empty();
        if (options.json)
            images.push_back({{"image", verdict.path},
                              {"number", verdict.number ? Json(verdict.number) : Json()},
                              {"good", verdict.findings.empty()},
                              {"findings", verdict.findings}});
        else if (!options.quiet || !verdict.findings.empty())
            print(verdict, out);
    }
    if (options.json)
        print_json(options, {{"good", bad == 0}, {"images", std::move(images)}});
    if (bad)
        return damaged(fmt::format("{} of {} cannot be restored or are damaged", bad,
                                   count_text(paths.size(), "image", "images")));
    return {};
}

} // namespace cryo::delta
