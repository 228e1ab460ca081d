// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <map>

#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

std::string mode_text(uint32_t flags)
{
    std::string out = (flags & O_ACCMODE) == O_RDONLY   ? "r"
                      : (flags & O_ACCMODE) == O_WRONLY ? "w"
                                                        : "rw";
    for (auto [bit, name] : {std::pair(uint32_t(O_APPEND), " append"),
                             {uint32_t(O_NONBLOCK), " nonblock"},
                             {uint32_t(O_DIRECT), " direct"},
                             {uint32_t(O_PATH), " path"}})
        if (flags & bit)
            out += name;
    return out;
}

bool has_contents(const File &f)
{
    return f.kind == FileKind::regular || f.kind == FileKind::memfd ||
           f.kind == FileKind::shared_memory;
}

std::string file_name(const File &f)
{
    std::string out = printable(f.path.empty() ? f.link : f.path);
    if (f.flags & kFileUnlinked)
        out += " (deleted)";
    if (f.flags & kFileRenamed)
        out += " (renamed)";
    return out.empty() ? "-" : out;
}

std::string contents_text(const Description &about, const File &f)
{
    if (f.object)
        return fmt::format("saved: object {}, {}", f.object,
                           pages_text(about.pages_of(f.object, 0, kMaxPage).all()));
    return has_contents(f) ? "not saved" : "";
}

} // namespace

std::vector<std::string> not_saved(const Description &about)
{
    std::vector<std::string> out;
    for (const File &f : about.all<File>())
        if (!f.object && (f.flags & kFileUnlinked) && has_contents(f))
            out.push_back(fmt::format("{}: has no name any more, and its contents are not here",
                                      file_name(f)));
    for (const Pipe &p : about.all<Pipe>())
        if (p.outside)
            out.push_back(
                fmt::format("pipe of file {}: its other end is another program's", p.file));
    for (const Notice &n : about.all<Notice>())
        out.push_back(fmt::format("{}{}{}{}", n.severity ? "warning: " : "", printable(n.subject),
                                  n.subject.empty() ? "" : ": ", printable(n.text)));
    return out;
}

void show_files(const Entry &entry, const Output &out)
{
    const Description &about = entry.about;
    std::map<uint32_t, OpenFile> open_files;
    std::map<uint32_t, File> files;
    for (const OpenFile &o : about.all<OpenFile>())
        open_files[o.id] = o;
    for (const File &f : about.all<File>())
        files[f.id] = f;

    Columns descriptors({Align::right, Align::left, Align::left, Align::right, Align::left,
                         Align::left, Align::left});
    descriptors.add({"fd", "open file", "mode", "position", "kind", "file", "contents"});
    for (const Descriptor &d : about.all<Descriptor>()) {
        auto open = open_files.find(d.open_file);
        if (open == open_files.end()) {
            descriptors.add({fmt::format("{}", d.fd), fmt::format("#{}", d.open_file), "", "",
                             out.bad("missing"), "", ""});
            continue;
        }
        const OpenFile &o = open->second;
        auto file = files.find(o.file);
        File none;
        const File &f = file == files.end() ? none : file->second;
        descriptors.add({fmt::format("{}", d.fd), fmt::format("#{}", o.id),
                         mode_text(o.flags) + (d.close_on_exec ? " cloexec" : ""),
                         fmt::format("{}", o.position),
                         file == files.end() ? out.bad("missing") : name_of(f.kind), file_name(f),
                         contents_text(about, f)});
    }
    out.print("{}\n{}", out.bold(printable(entry.name)), descriptors.text(2));

    Columns others({Align::left, Align::right, Align::left, Align::left});
    std::map<uint32_t, bool> is_open;
    for (const auto &[id, o] : open_files)
        is_open[o.file] = true;
    for (const auto &[id, f] : files)
        if (!is_open[id])
            others.add({name_of(f.kind), size_text(f.size), file_name(f), contents_text(about, f)});
    if (!others.empty())
        out.print("  {}\n{}", out.bold("mapped or executed only"), others.text(4));
    auto missing = not_saved(about);
    if (!missing.empty())
        out.print("  {}\n", out.bold("to know"));
    for (const std::string &text : missing)
        out.print("    {}\n", text);
}

} // namespace cryo::inspect
