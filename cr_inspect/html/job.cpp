// SPDX-License-Identifier: Apache-2.0
#include "html/job.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/ranges.h>
#include <iterator>
#include <sys/stat.h>

#include "coord/launcher_words.hpp"
#include "coord/snapshot_text.hpp"
#include "html/time_line.hpp"
#include "views.hpp"

namespace cryo::inspect {

using coord::Snapshot;
using coord::SnapshotImage;
using coord::SnapshotStore;

using image::Descriptor;
using image::ImageInfo;
using image::Process;
using image::Region;
using image::Thread;

namespace {

// "0-3, 8", of numbers in ascending order.
std::string ranges_text(const std::vector<uint32_t> &numbers)
{
    std::string out;
    for (size_t i = 0; i < numbers.size();) {
        size_t end = i + 1;
        while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
            end++;
        out += fmt::format("{}{}", out.empty() ? "" : ", ", numbers[i]);
        if (end - i > 1)
            out += fmt::format("-{}", numbers[end - 1]);
        i = end;
    }
    return out;
}

struct NodeSum {
    std::vector<uint32_t> ranks = {};
    uint64_t bytes = 0;
    uint64_t local = 0; // images that the node has, too
};

std::map<std::string, NodeSum> nodes_of(const Snapshot &snapshot)
{
    std::map<std::string, NodeSum> out;
    for (const SnapshotImage &image : snapshot.images) {
        NodeSum &sum = out[image.node];
        sum.ranks.push_back(image.rank);
        sum.bytes += image.bytes;
        sum.local += !image.local.empty();
    }
    for (auto &[node, sum] : out)
        std::ranges::sort(sum.ranks);
    return out;
}

std::string took_text(const Snapshot &snapshot)
{
    const auto from = time_in_words(snapshot.started);
    const auto to = time_in_words(snapshot.completed);
    if (!from || !to || *to < *from)
        return "";
    constexpr int64_t kSecond = 1'000'000'000;
    return *to == *from ? "less than 1 s" : fmt::format("{} s", (*to - *from) / kSecond);
}

std::string redundancy_text(const Snapshot &snapshot)
{
    if (snapshot.redundancy.empty())
        return "–";
    return fmt::format("{}, {}", snapshot.redundancy,
                       amount_text(snapshot.sets.size(), "set", "sets"));
}

// Of ranks that are counted, only those of the snapshot that is shown were asked for theirs.
std::string nodes_text(const Snapshot &snapshot)
{
    return snapshot.images.size() < snapshot.ranks() ? "–" : number_text(nodes_of(snapshot).size());
}

// Numbers of those that were removed are not used again, so that they tell no count.
std::string place_text(const std::map<int, Snapshot> &all, int seq)
{
    size_t finished = 0;
    int newest = seq;
    for (const auto &[number, s] : all) {
        finished += s.finished ? 1 : 0;
        newest = s.finished ? number : newest;
    }
    std::string text = finished == 1 ? "the only one here"
                                     : fmt::format("{} of {} here",
                                                   seq == newest ? "the newest" : "an earlier one",
                                                   number_text(finished));
    if (finished < all.size())
        text += fmt::format("; {} more not finished", number_text(all.size() - finished));
    return text;
}

// The first process of a rank's image, which is the rank.
const Description *first_of(const Source &source)
{
    return source.entries.empty() || source.entries.front().error ? nullptr
                                                                  : &source.entries.front().about;
}

std::string memory_text(const Description &about)
{
    uint64_t present = 0;
    for (const Region &r : about.all<Region>())
        present += r.present;
    return pages_text(present);
}

} // namespace

Result<std::optional<JobSource>> JobSource::find(const std::string &path)
{
    std::error_code failed;
    const std::filesystem::path real = std::filesystem::canonical(path, failed);
    if (failed || !std::filesystem::is_directory(real, failed))
        return std::optional<JobSource>();
    auto store = SnapshotStore::open(real);
    int seq = -1;
    if (!store && store.error().code() == ENOENT) { // it may be one of them
        seq = coord::seq_of(real.filename().string());
        if (seq < 0)
            return std::optional<JobSource>();
        store = SnapshotStore::open(real.parent_path());
        if (!store && store.error().code() == ENOENT)
            return std::optional<JobSource>();
    }
    if (!store)
        return store.error();
    const Snapshot *shown = seq < 0 ? store->latest() : store->find(seq);
    if (!shown && seq < 0)
        return Error(ENOENT, path + ": none of its snapshots is finished");
    if (!shown)
        return Error(ENOENT, fmt::format("{}: is no finished snapshot of {}", path, store->path()));
    seq = shown->seq;
    return std::optional(JobSource(std::move(*store), seq));
}

std::string JobSource::title(const Input &input) const
{
    const Snapshot &s = shown();
    if (s.command.empty())
        return fmt::format("launcher {}", s.launcher);
    std::vector<std::string> words = coord::without_exports(s.command);
    if (std::optional<std::vector<std::string>> options = coord::before_restart(words)) {
        words = std::move(*options);
        const Source first = s.images.empty() ? Source{} : load(s.images.front(), input);
        if (const Description *rank = first_of(first))
            std::ranges::copy(rank->arguments(), std::back_inserter(words));
    }
    return fmt::format("{}", fmt::join(words, " "));
}

// The directory may be another user's: no link is followed, and nothing but a file is read.
Result<Fd> JobSource::open(const SnapshotImage &image) const
{
    auto all = store_.directory().enter(std::to_string(shown_.seq));
    if (!all)
        return all.error();
    auto rank = coord::enter_rank(*all, image.rank);
    if (!rank)
        return rank.error();
    const std::string path = rank->path(image.file);
    Fd fd(openat(rank->fd(), image.file.c_str(),
                 O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status))
        return Error::from_errno(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is no regular file");
    return fd;
}

Source JobSource::load(const SnapshotImage &image, const Input &input) const
{
    const std::string path = store_.image_path(shown(), image);
    auto fd = open(image);
    if (!fd)
        return {.name = path, .error = fd.error()};
    return input.load_file(std::move(*fd), path);
}

bool JobSection::show()
{
    {
        auto section = page_.in("section", {{"class", "job"}, {"id", "job"}});
        page_.leaf("h2", fmt::format("Snapshot {}", job_.shown().seq));
        page_.leaf("p", job_.path(), {{"class", "file"}});
        facts();
        generations();
        nodes();
        sets();
        ranks();
    }
    page_.append(sections_);
    return good_;
}

void JobSection::facts()
{
    const Snapshot &s = job_.shown();
    auto list = page_.in("dl", {{"class", "facts"}});
    add_definition(page_, "snapshot",
                   fmt::format("{}, {}", s.seq, place_text(job_.snapshots(), s.seq)));
    add_definition(page_, "begun", s.started);
    add_definition(page_, "complete", s.completed);
    add_definition(page_, "ranks", number_text(s.images.size()));
    add_definition(page_, "nodes", number_text(nodes_of(s).size()));
    add_definition(page_, "size", size_text(s.bytes()));
    add_definition(page_, "copies on nodes",
                   s.local_images() ? fmt::format("{} of {} images", number_text(s.local_images()),
                                                  number_text(s.images.size()))
                                    : "none");
    add_definition(page_, "redundancy", redundancy_text(s));
    add_definition(page_, "launcher", fmt::format("pid {}", s.launcher));
    add_definition(page_, "directory", s.directory);
    add_definition(page_, "job", s.job);
}

void JobSection::generations()
{
    page_.leaf("h3", amount_text(job_.snapshots().size(), "snapshot", "snapshots"));
    TimeLine line("The job's snapshots over time");
    uint64_t largest = 1;
    for (const auto &[seq, s] : job_.snapshots()) {
        largest = std::max(largest, s.bytes());
        const auto at = time_in_words(s.completed.empty() ? s.started : s.completed);
        if (s.finished && at)
            line.add({.at = *at,
                      .bytes = s.bytes(),
                      .label = fmt::format("snapshot {}", seq),
                      .current = seq == job_.shown().seq});
    }
    line.draw(page_);
    HtmlTable table(page_, "Snapshots of the job",
                    {{"snapshot", Align::right},
                     {"begun"},
                     {"complete"},
                     {"took", Align::right},
                     {"ranks", Align::right},
                     {"nodes", Align::right},
                     {"size", Align::right},
                     {"copies on nodes", Align::right},
                     {"redundancy"}});
    const size_t count = job_.snapshots().size();
    size_t left_out = count - std::min(count, limits_.rows);
    if (left_out)
        table.add_total({fmt::format("+ {}", number_text(left_out)),
                         "earlier ones; --all lists every one", "", "", "", "", "", "", ""});
    for (const auto &[seq, s] : job_.snapshots()) {
        if (left_out) {
            left_out--;
            continue;
        }
        const bool is_shown = seq == job_.shown().seq;
        table.add({fmt::format("{}{}", is_shown ? "▸ " : "", seq), s.started,
                   s.finished ? s.completed : "not finished", took_text(s), number_text(s.ranks()),
                   nodes_text(is_shown ? job_.shown() : s),
                   HtmlCell::bar(size_text(s.bytes()), double(s.bytes()) / double(largest)),
                   number_text(s.local_images()), redundancy_text(s)});
    }
}

void JobSection::nodes()
{
    const auto nodes = nodes_of(job_.shown());
    page_.leaf("h3", amount_text(nodes.size(), "node", "nodes"));
    uint64_t largest = 1;
    for (const auto &[name, sum] : nodes)
        largest = std::max(largest, sum.bytes);
    HtmlTable table(page_, "Nodes",
                    {{"node"},
                     {"ranks", Align::right},
                     {"which"},
                     {"size", Align::right},
                     {"copies there", Align::right}});
    size_t shown = 0;
    NodeSum rest;
    for (const auto &[name, sum] : nodes) {
        if (shown++ < limits_.rows) {
            table.add({name, number_text(sum.ranks.size()), ranges_text(sum.ranks),
                       HtmlCell::bar(size_text(sum.bytes), double(sum.bytes) / double(largest)),
                       number_text(sum.local)});
            continue;
        }
        rest.bytes += sum.bytes;
        rest.local += sum.local;
        rest.ranks.insert(rest.ranks.end(), sum.ranks.begin(), sum.ranks.end());
    }
    if (shown > limits_.rows)
        table.add_total({fmt::format("{} more nodes", number_text(shown - limits_.rows)),
                         number_text(rest.ranks.size()), "--all lists every one",
                         size_text(rest.bytes), number_text(rest.local)});
}

void JobSection::sets()
{
    const Snapshot &s = job_.shown();
    if (s.sets.empty())
        return;
    page_.leaf("h3", fmt::format("{} of redundancy {}", amount_text(s.sets.size(), "set", "sets"),
                                 s.redundancy));
    HtmlTable table(page_, "Sets", {{"set", Align::right}, {"nodes"}});
    const size_t shown = std::min(s.sets.size(), limits_.rows);
    for (size_t i = 0; i < shown; i++)
        table.add({fmt::format("{}", i), fmt::format("{}", fmt::join(s.sets[i].nodes, ", "))});
    if (shown < s.sets.size())
        table.add_total({fmt::format("+ {}", number_text(s.sets.size() - shown)),
                         "more sets; --all lists every one"});
}

void JobSection::ranks()
{
    const auto &images = job_.shown().images;
    page_.leaf("h3", amount_text(images.size(), "rank", "ranks"));
    const size_t shown = std::min(images.size(), limits_.rows);
    const size_t with_section = std::min(shown, limits_.processes);
    if (with_section < images.size())
        say_left_out(page_, fmt::format("The first {} have a section of their own below; for "
                                        "another one, make a page of its image. --all gives one to "
                                        "every rank.",
                                        number_text(with_section)));
    uint64_t largest = 1;
    for (const SnapshotImage &image : images)
        largest = std::max(largest, image.bytes);
    HtmlTable table(page_, "Ranks",
                    {{"rank", Align::right},
                     {"node"},
                     {"pid", Align::right},
                     {"program"},
                     {"threads", Align::right},
                     {"descriptors", Align::right},
                     {"memory", Align::right},
                     {"stood still", Align::right},
                     {"size", Align::right},
                     {"copy on its node"}});
    for (size_t i = 0; i < shown; i++)
        rank(table, images[i], i < with_section, largest);
    if (shown == images.size())
        return;
    uint64_t bytes = 0;
    for (size_t i = shown; i < images.size(); i++)
        bytes += images[i].bytes;
    table.add_total({fmt::format("+ {}", number_text(images.size() - shown)), "more ranks", "", "",
                     "", "", "", "", size_text(bytes), ""});
}

void JobSection::rank(HtmlTable &table, const SnapshotImage &image, bool with_section,
                      uint64_t largest)
{
    const Source source = job_.load(image, input_);
    good_ = complain_of(source) && good_;
    const std::string id = fmt::format("rank-{}", image.rank);
    const std::string number = fmt::format("{}", image.rank);
    const HtmlCell name = with_section ? HtmlCell(number, id) : HtmlCell(number);
    const HtmlCell size =
        HtmlCell::bar(size_text(image.bytes), double(image.bytes) / double(largest));
    const std::string copy = image.local.empty() ? "–" : image.local;
    if (const Description *about = first_of(source)) {
        std::string program(about->one<Process>().comm);
        if (source.entries.size() > 1)
            program += fmt::format(" and {}", amount_text(source.entries.size() - 1,
                                                          "other process", "other processes"));
        table.add({name, image.node, fmt::format("{}", image.pid), program,
                   number_text(about->all<Thread>().size()),
                   number_text(about->all<Descriptor>().size()), memory_text(*about),
                   duration_text(about->one<ImageInfo>().stopped_ns), size, copy});
    } else {
        table.add({name, image.node, fmt::format("{}", image.pid), "cannot be read", "", "", "", "",
                   size, copy});
    }
    if (!with_section)
        return;
    ProcessSection section(sections_, limits_, input_);
    if (source.error) {
        auto place = sections_.in("section", {{"class", "process"}, {"id", id}});
        sections_.leaf("h2", "Rank " + number);
        sections_.leaf("p", source.error->text(), {{"class", "bad"}});
    }
    size_t count = 0;
    for (const Entry &e : source.entries) {
        const auto process = e.about.one<Process>();
        section.show(count ? fmt::format("{}-{}", id, count) : id,
                     fmt::format("Rank {}: {}, pid {}", number, process.comm, process.pid), source,
                     e);
        count++;
    }
}

} // namespace cryo::inspect
