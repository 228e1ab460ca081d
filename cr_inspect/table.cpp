// SPDX-License-Identifier: Apache-2.0
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

void add_entry(Columns &table, const Entry &entry, const Output &out)
{
    if (entry.error) {
        table.add({printable(entry.name), "", "", "", "", "", "", out.bad("damaged")});
        return;
    }
    const Description &about = entry.about;
    auto process = about.one<Process>();
    uint64_t present = 0;
    for (const Region &r : about.all<Region>())
        present += r.present;
    table.add({printable(entry.name), fmt::format("{}", process.pid), printable(process.comm),
               fmt::format("{}", about.all<Thread>().size()),
               fmt::format("{}", about.all<Descriptor>().size()), pages_text(present),
               size_text(about.footer.length),
               time_text(about.header.created) + (about.header.is_delta() ? ", delta" : "")});
}

} // namespace

void show_table(const std::vector<Source> &sources, const Output &out)
{
    Columns table({Align::left, Align::right, Align::left, Align::right, Align::right, Align::right,
                   Align::right, Align::left});
    table.add({"image", "pid", "program", "threads", "fds", "memory", "size", "taken"});
    uint64_t images = 0;
    uint64_t bytes = 0;
    for (const Source &s : sources) {
        if (s.error)
            table.add({printable(s.name), "", "", "", "", "", "", out.bad("damaged")});
        size_t next = 0;
        for (const SnapshotMember &m : s.members) {
            if (m.state != MemberState::saved)
                table.add({fmt::format("{}[{}]", printable(s.name), m.pid),
                           fmt::format("{}", m.pid), printable(m.comm), "", "", "", "",
                           name_of(m.state)});
            else if (next < s.entries.size() &&
                     s.entries[next].member == size_t(&m - s.members.data()))
                add_entry(table, s.entries[next++], out);
        }
        for (; next < s.entries.size(); next++) // of a stream
            add_entry(table, s.entries[next], out);
        for (const Entry &e : s.entries) {
            images += !e.error;
            bytes += e.error ? 0 : e.about.footer.length;
        }
    }
    out.print("{}", table.text(0));
    out.print("{}, {}\n", count_text(images, "image", "images"), size_text(bytes));
}

} // namespace cryo::inspect
