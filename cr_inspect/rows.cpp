// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"

#include <fcntl.h>
#include <map>
#include <set>
#include <sys/mman.h>

#include "cli/text.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

std::map<uint32_t, File> files_by_id(const Description &about)
{
    std::map<uint32_t, File> out;
    for (const File &f : about.all<File>())
        out[f.id] = f;
    return out;
}

std::map<uint32_t, OpenFile> open_files_by_id(const Description &about)
{
    std::map<uint32_t, OpenFile> out;
    for (const OpenFile &o : about.all<OpenFile>())
        out[o.id] = o;
    return out;
}

template <class T>
std::optional<T> find(const std::map<uint32_t, T> &in, uint32_t id)
{
    auto at = in.find(id);
    return at == in.end() ? std::nullopt : std::optional(at->second);
}

std::string name_in_map(const Region &r, const std::map<uint32_t, File> &files)
{
    if (auto file = files.find(r.file); r.file && file != files.end()) {
        const File &f = file->second;
        return printable(f.path.empty() ? f.link : f.path) +
               (f.flags & kFileUnlinked ? " (deleted)" : "");
    }
    switch (r.kind) {
    case RegionKind::anonymous:
        return r.name.empty() ? "" : fmt::format("[anon:{}]", printable(r.name));
    case RegionKind::heap:
    case RegionKind::stack:
    case RegionKind::vdso:
    case RegionKind::vvar:
        return fmt::format("[{}]", name_of(r.kind));
    default:
        return fmt::format("[{}{}{}]", name_of(r.kind), r.name.empty() ? "" : ":",
                           printable(r.name));
    }
}

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

std::vector<MappingRow> mapping_rows(const Description &about)
{
    auto files = files_by_id(about);
    std::vector<MappingRow> out;
    for (const Region &r : about.all<Region>())
        out.push_back({r, about.pages_of(r), name_in_map(r, files)});
    return out;
}

std::string protection_text(const Region &r)
{
    return fmt::format("{}{}{}{}", r.prot & PROT_READ ? 'r' : '-', r.prot & PROT_WRITE ? 'w' : '-',
                       r.prot & PROT_EXEC ? 'x' : '-', r.flags & kRegionShared ? 's' : 'p');
}

std::string stored_text(const PageCounts &pages)
{
    std::string out = pages.data ? pages_text(pages.data) : "-";
    if (pages.zero)
        out += fmt::format(" + {} zero", pages_text(pages.zero));
    if (pages.base)
        out += fmt::format(" + {} in base", pages_text(pages.base));
    return out;
}

void MappingSum::add(const Region &region, const PageCounts &pages)
{
    *this += {1, region_pages(region), region.present, pages};
}

void MappingSum::operator+=(const MappingSum &more)
{
    mappings += more.mappings;
    size += more.size;
    present += more.present;
    stored += more.stored;
}

std::vector<DescriptorRow> descriptor_rows(const Description &about)
{
    auto open_files = open_files_by_id(about);
    auto files = files_by_id(about);
    std::vector<DescriptorRow> out;
    for (const Descriptor &d : about.all<Descriptor>()) {
        DescriptorRow row{.descriptor = d, .open_file = find(open_files, d.open_file)};
        if (row.open_file) {
            row.file = find(files, row.open_file->file);
            const File file = row.file.value_or(File());
            row.mode = mode_text(row.open_file->flags) + (d.close_on_exec ? " cloexec" : "");
            row.name = file_name(file);
            row.contents = contents_text(about, file);
        }
        out.push_back(std::move(row));
    }
    return out;
}

std::vector<FileRow> other_file_rows(const Description &about)
{
    std::set<uint32_t> open;
    for (const OpenFile &o : about.all<OpenFile>())
        open.insert(o.file);
    std::vector<FileRow> out;
    for (const auto &[id, f] : files_by_id(about))
        if (!open.contains(id))
            out.push_back({f, file_name(f), contents_text(about, f)});
    return out;
}

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

} // namespace cryo::inspect
