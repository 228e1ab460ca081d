// SPDX-License-Identifier: Apache-2.0
// cr_inspect: shows what is in an image.
#include <csignal>
#include <cstdio>

#include "base/print.hpp"
#include "cli/command.hpp"
#include "views.hpp"

namespace cryo::inspect {

void complain(const Error &error, const std::string &path)
{
    fflush(stdout);
    cryo::print(stderr, "{}: {}\n", kCommand, printable(error.text()));
    if (error.code() != EBADMSG)
        return;
    if (std::string more = diagnose(path); !more.empty())
        cryo::print(stderr, "{}: {}: {}\n", kCommand, printable(path), more);
}

bool complain_of(const Source &source)
{
    if (source.error)
        complain(*source.error, source.name);
    bool good = !source.error;
    for (const Entry &e : source.entries) {
        if (e.error)
            complain(*e.error, e.name);
        good = good && !e.error;
    }
    return good;
}

namespace {

bool complain_of_all(const std::vector<Source> &sources)
{
    bool good = true;
    for (const Source &s : sources)
        good = complain_of(s) && good;
    return good;
}

void show(const std::vector<Source> &sources, const Options &options, const Output &out)
{
    size_t entries = 0;
    for (const Source &s : sources)
        entries += s.entries.size();
    bool lists = options.maps || options.descriptors || options.records;
    if (!lists && (entries > 1 || sources.size() > 1)) {
        show_table(sources, out);
        return;
    }
    for (const Source &s : sources)
        for (const Entry &e : s.entries) {
            if (e.error)
                continue;
            if (options.maps)
                show_maps(e, out);
            else if (options.descriptors)
                show_files(e, out);
            else if (options.records)
                show_records(e, out);
            else
                show_summary(e, out);
        }
}

int run(const Options &options)
{
    Input input(options);
    Output out;
    if (options.verify)
        return verify(input, options, out);
    if (options.diff)
        return show_difference(input, options, out);
    if (!options.extract.empty()) {
        auto ok = extract(input, options);
        if (!ok)
            complain(ok.error(), options.files[0]);
        return ok ? kGood : kDamaged;
    }
    if (options.html)
        return show_page(input, options);
    std::vector<Source> sources;
    for (const std::string &file : options.files)
        sources.push_back(input.load(file));
    if (options.json)
        return show_json(sources);
    show(sources, options, out);
    return complain_of_all(sources) ? kGood : kDamaged;
}

} // namespace

} // namespace cryo::inspect

static int run(int argc, char **argv)
{
    using namespace cryo::inspect;
    signal(SIGPIPE, SIG_DFL); // "cr_inspect … | head" ends quietly
    Options options;
    if (std::optional<int> done = parse(argc, argv, options))
        return *done;
    int code = run(options);
    if (!Output::finish()) {
        cryo::print(stderr, "{}: standard output: cannot be written\n", kCommand);
        return kDamaged;
    }
    return code;
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_inspect", [&] { return run(argc, argv); });
}
