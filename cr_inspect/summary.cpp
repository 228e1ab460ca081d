// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

class Summary
{
  public:
    Summary(const Entry &entry, const Output &out) : about_(entry.about), out_(out)
    {
        out_.print("{}  {}image of a {}, {}\n", out_.bold(printable(entry.name)),
                   about_.header.is_delta() ? "delta " : "", is_file() ? "file" : "process",
                   size_text(about_.footer.length));
    }

    void show()
    {
        if (is_file()) {
            version();
            when();
            where();
            packing();
            return;
        }
        who();
        when();
        where();
        if (about_.all<Foreign>().empty()) {
            threads();
            descriptors();
            signals();
            memory();
        } else {
            attached();
        }
        packing();
        notices();
    }

  private:
    void line(std::string_view label, const std::string &text) const
    {
        if (!text.empty())
            out_.print("  {} {}\n", out_.faint(fmt::format("{:<12}", label)), text);
    }

    bool is_file() const { return about_.header.role == Role::file; }

    // An image of cr_delta, which tells more about chains.
    void version() const
    {
        for (const Delta &d : about_.all<Delta>()) {
            line("file", fmt::format("{}, {}", printable(d.name), size_text(d.size)));
            std::string number = d.number ? fmt::format("{}, ", d.number) : "";
            line("version", fmt::format("{}{} of {} blocks of {}{}", number, d.changed, d.blocks,
                                        size_text(d.block_size),
                                        d.object ? "" : "; their signature, without contents"));
        }
        if (size_t versions = about_.all<DeltaVersion>().size())
            line("service", count_text(versions, "version", "versions"));
    }

    void who() const
    {
        auto process = about_.one<Process>();
        auto info = about_.one<ImageInfo>();
        std::string command;
        for (const std::string &word : about_.arguments())
            command += (command.empty() ? "" : " ") + printable(word);
        constexpr size_t kShown = 200;
        if (command.size() > kShown)
            command = command.substr(0, kShown) + "…";
        line("program", command.empty() ? printable(process.exe) : command);
        line("process",
             fmt::format("pid {}, parent {}, group {}, session {}; {}", process.pid, process.ppid,
                         process.pgid, process.sid, printable(process.comm)));
        line("user",
             fmt::format("{}uid {}, gid {}", info.user.empty() ? "" : printable(info.user) + ", ",
                         process.euid, process.egid));
        line("directory", printable(process.cwd));
    }

    void when() const
    {
        auto info = about_.one<ImageInfo>();
        std::string text = time_text(about_.header.created);
        if (info.total_ns)
            text += fmt::format(", took {}", duration_text(info.total_ns));
        line("taken", text);
        if (info.stopped_ns)
            line("stood still",
                 duration_text(info.stopped_ns) +
                     (info.snapshot.empty() ? "" : " (" + printable(info.snapshot) + ")"));
    }

    void where() const
    {
        auto info = about_.one<ImageInfo>();
        auto cpu = about_.one<Cpu>();
        std::string text = info.host.empty() ? "" : printable(info.host) + ", ";
        text += "Linux " + printable(about_.header.kernel);
        text += about_.header.machine == kMachineX86_64
                    ? ", x86-64"
                    : fmt::format(", machine {}", about_.header.machine);
        if (!cpu.model.empty())
            text += ", " + printable(cpu.model);
        line("host", text);
        std::string by = printable(info.request);
        if (!info.tool.empty())
            by += fmt::format("{}Cryo {}", by.empty() ? "" : "; ", printable(info.tool));
        if (!info.backend.empty())
            by += fmt::format("{}backend {}", by.empty() ? "" : ", ", printable(info.backend));
        line("by", by);
        if (about_.header.is_delta())
            line("base", fmt::format("image {}{}", about_.header.base_id.hex(),
                                     about_.header.is_delta_of_earlier()
                                         ? ""
                                         : ", its parent's, in this archive"));
        line("id", about_.header.id.hex());
    }

    // Files that another checkpointer, or the program itself, has written.
    void attached() const
    {
        auto foreign = about_.one<Foreign>();
        line("made by", printable(foreign.tool));
        if (foreign.pids.size() > 1)
            line("processes", fmt::format("{}", foreign.pids.size()));
        auto files = about_.all<Attachment>();
        uint64_t bytes = 0;
        for (const Attachment &file : files)
            bytes += file.size;
        line("carries",
             fmt::format("{}, {}", count_text(files.size(), "file", "files"), size_text(bytes)));
    }

    void threads() const
    {
        auto threads = about_.all<Thread>();
        std::map<std::string, int> names;
        for (const Thread &t : threads)
            names[printable(t.name)]++;
        std::string text = fmt::format("{}", threads.size());
        std::string separator = ": ";
        for (const auto &[name, count] : names) {
            if (name.empty())
                continue;
            text += separator + name + (count > 1 ? fmt::format(" ×{}", count) : "");
            separator = ", ";
        }
        line("threads", text);
    }

    void descriptors() const
    {
        std::map<uint32_t, uint32_t> file_of;
        std::map<uint32_t, FileKind> kind_of;
        for (const OpenFile &o : about_.all<OpenFile>())
            file_of[o.id] = o.file;
        for (const File &f : about_.all<File>())
            kind_of[f.id] = f.kind;
        std::map<FileKind, int> kinds;
        auto descriptors = about_.all<Descriptor>();
        for (const Descriptor &d : descriptors)
            if (auto file = file_of.find(d.open_file); file != file_of.end())
                if (auto kind = kind_of.find(file->second); kind != kind_of.end())
                    kinds[kind->second]++;
        std::string text = fmt::format("{}", descriptors.size());
        std::string separator = ": ";
        for (const auto &[kind, count] : kinds) {
            text += fmt::format("{}{}{}", separator, name_of(kind),
                                count > 1 ? fmt::format(" ×{}", count) : "");
            separator = ", ";
        }
        line("descriptors", text);
    }

    void signals() const
    {
        std::string text;
        auto mention = [&](size_t count, std::string_view one, std::string_view many) {
            if (count)
                text += (text.empty() ? "" : ", ") + count_text(count, one, many);
        };
        mention(about_.all<Sigaction>().size(), "signal action", "signal actions");
        mention(about_.all<PendingSignal>().size(), "pending signal", "pending signals");
        mention(about_.all<Timer>().size(), "timer", "timers");
        mention(about_.all<Lock>().size(), "file lock", "file locks");
        mention(about_.all<Ipc>().size(), "System V object", "System V objects");
        line("state", text);
    }

    void memory() const
    {
        struct Sum {
            uint64_t regions = 0;
            uint64_t size = 0;
            uint64_t present = 0;
            PageCounts stored = {};
        };
        std::map<RegionKind, Sum> kinds;
        Sum total;
        for (const Region &r : about_.all<Region>()) {
            PageCounts here = about_.pages_of(r);
            for (Sum *sum : {&kinds[r.kind], &total}) {
                sum->regions++;
                sum->size += region_pages(r);
                sum->present += r.present;
                sum->stored.data += here.data;
                sum->stored.zero += here.zero;
                sum->stored.base += here.base;
            }
        }
        bool delta = about_.header.is_delta();
        Columns table(
            {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
        auto row = [&](const std::string &name, const Sum &s) {
            table.add({name, fmt::format("{}", s.regions), pages_text(s.size),
                       pages_text(s.present), pages_text(s.stored.data),
                       delta ? pages_text(s.stored.base) : ""});
        };
        table.add(
            {out_.bold("memory"), "regions", "size", "present", "saved", delta ? "in base" : ""});
        for (const auto &[kind, sum] : kinds)
            row(name_of(kind), sum);
        if (kinds.size() > 1)
            row("total", total);
        if (total.regions)
            out_.print("{}", table.text(2));
    }

    void packing() const
    {
        PageCounts pages = about_.pages();
        uint64_t raw = pages.data * kPageSize;
        std::string text = fmt::format("{} of pages", size_text(raw));
        if (about_.footer.stored && about_.footer.stored < raw)
            text += fmt::format(" in {} ({:.2f} : 1)", size_text(about_.footer.stored),
                                double(raw) / double(about_.footer.stored));
        if (about_.statistics) {
            std::string separator = "; ";
            const Statistics &s = *about_.statistics;
            for (unsigned c = 0; c < kCodecCount; c++) {
                if (!s.packages[c])
                    continue;
                text += fmt::format("{}{} {:.0f} %", separator, name_of(static_cast<Codec>(c)),
                                    100.0 * double(s.raw[c]) / double(raw));
                separator = ", ";
            }
        }
        line("stored", text);
        if (pages.zero)
            line("", fmt::format("{} of zeros, which take no space", pages_text(pages.zero)));
        if (pages.base)
            line("", fmt::format("{} are in the base image", pages_text(pages.base)));
        line("records", fmt::format("{} ({} besides pages)", about_.footer.records,
                                    size_text(about_.footer.length - about_.footer.stored)));
    }

    void notices() const
    {
        for (const std::string &text : not_saved(about_))
            line("note", text);
    }

    const Description &about_;
    const Output &out_;
};

} // namespace

void show_summary(const Entry &entry, const Output &out)
{
    Summary(entry, out).show();
}

} // namespace cryo::inspect
