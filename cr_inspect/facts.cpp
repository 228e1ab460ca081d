// SPDX-License-Identifier: Apache-2.0
#include "facts.hpp"

#include <map>

#include "beginning.hpp"
#include "cli/text.hpp"
#include "rows.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

class Collector
{
  public:
    explicit Collector(const Description &about) : about_(about) {}

    Facts collect()
    {
        if (is_file(about_)) {
            version();
            when();
            where();
        } else {
            who();
            when();
            where();
            if (about_.all<Foreign>().empty()) {
                threads();
                descriptors();
                signals();
            } else {
                attached();
            }
        }
        to_ = &out_.storage;
        packing();
        return std::move(out_);
    }

  private:
    void line(std::string_view label, std::string text)
    {
        if (!text.empty())
            to_->push_back({std::string(label), std::move(text)});
    }

    // An image of cr_delta, which tells more about chains.
    void version()
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

    void who()
    {
        auto process = about_.one<Process>();
        auto info = about_.one<ImageInfo>();
        std::string command;
        for (const std::string &word : about_.arguments())
            command += (command.empty() ? "" : " ") + printable(word);
        constexpr size_t kShown = 200;
        if (command.size() > kShown)
            command = std::string(beginning(command, kShown)) + "…";
        line("program", command.empty() ? printable(process.exe) : command);
        line("process",
             fmt::format("pid {}, parent {}, group {}, session {}; {}", process.pid, process.ppid,
                         process.pgid, process.sid, printable(process.comm)));
        line("user",
             fmt::format("{}uid {}, gid {}", info.user.empty() ? "" : printable(info.user) + ", ",
                         process.euid, process.egid));
        line("directory", printable(process.cwd));
    }

    void when()
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

    void where()
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
        chain();
        line("id", about_.header.id.hex());
    }

    void chain()
    {
        if (about_.lacks)
            line("chain", "is broken: " + printable(about_.lacks->text()));
        std::string names;
        for (const std::string &name : about_.bases)
            names += (names.empty() ? "" : ", ") + printable(name);
        if (!names.empty())
            line("chain", fmt::format("needs {}: {}",
                                      count_text(about_.bases.size(), "image", "images"), names));
    }

    // Files that another checkpointer, or the program itself, has written.
    void attached()
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

    void threads()
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

    void descriptors()
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

    void signals()
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

    void packing()
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

    const Description &about_;
    Facts out_;
    std::vector<Fact> *to_ = &out_.about;
};

} // namespace

Facts facts_of(const Description &about)
{
    Facts out = Collector(about).collect();
    if (!is_file(about))
        out.notes = not_saved(about);
    return out;
}

std::vector<KindSum> memory_by_kind(const Description &about)
{
    std::map<RegionKind, MappingSum> kinds;
    for (const Region &r : about.all<Region>())
        kinds[r.kind].add(r, about.pages_of(r));
    return {kinds.begin(), kinds.end()};
}

} // namespace cryo::inspect
