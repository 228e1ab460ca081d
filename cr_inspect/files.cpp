// SPDX-License-Identifier: Apache-2.0
#include "rows.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

void show_files(const Entry &entry, const Output &out)
{
    const Description &about = entry.about;
    Columns descriptors({Align::right, Align::left, Align::left, Align::right, Align::left,
                         Align::left, Align::left});
    descriptors.add({"fd", "open file", "mode", "position", "kind", "file", "contents"});
    for (const DescriptorRow &d : descriptor_rows(about)) {
        std::string fd = fmt::format("{}", d.descriptor.fd);
        std::string number = fmt::format("#{}", d.descriptor.open_file);
        if (d.open_file)
            descriptors.add({fd, number, d.mode, fmt::format("{}", d.open_file->position),
                             d.file ? name_of(d.file->kind) : out.bad("missing"), d.name,
                             d.contents});
        else
            descriptors.add({fd, number, "", "", out.bad("missing"), "", ""});
    }
    out.print("{}\n{}", out.bold(printable(entry.name)), descriptors.text(2));

    Columns others({Align::left, Align::right, Align::left, Align::left});
    for (const FileRow &f : other_file_rows(about))
        others.add({name_of(f.file.kind), size_text(f.file.size), f.name, f.contents});
    if (!others.empty())
        out.print("  {}\n{}", out.bold("mapped or executed only"), others.text(4));
    auto missing = not_saved(about);
    if (!missing.empty())
        out.print("  {}\n", out.bold("to know"));
    for (const std::string &text : missing)
        out.print("    {}\n", text);
}

} // namespace cryo::inspect
