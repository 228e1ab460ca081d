// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;
using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kMostFindings = 1000;

// Finds ids that refer to nothing: records may be intact and the image still inconsistent.
class References
{
  public:
    explicit References(const Description &about) : about_(about)
    {
        collect(files_, about.all<File>());
        collect(open_files_, about.all<OpenFile>());
        collect(objects_, about.all<Object>());
        if (uint32_t object = about.one<Memory>().object)
            objects_.insert(object);
    }

    std::vector<Finding> check()
    {
        for (const StoredRecord &stored : about_.records) {
            at_ = &stored;
            with_record_type(stored.type, [&]<class R>() {
                R record;
                if (decode(stored.payload, record))
                    R::fields(record, *this);
                if constexpr (std::is_same_v<R, Region>)
                    region(record);
            });
        }
        if (about_.header.role == Role::file) // no process: nothing has to be there
            return std::move(findings_);
        if (!about_.one<Process>().pid)
            findings_.push_back({0, "there is no record PROCESS"});
        const bool by_others = !about_.all<Foreign>().empty(); // which know about threads
        if (about_.all<Thread>().empty() && !by_others)
            findings_.push_back({0, "there is no record THREAD"});
        return std::move(findings_);
    }

    // Called for each field of a record: those that are ids have the name of what they refer to.
    template <class T>
    void operator()(const char *name, const T &value, Show = Show::decimal)
    {
        if constexpr (std::is_same_v<T, uint32_t>) {
            std::string_view field(name);
            if (at_->type != RecordType::object && field == "object")
                refer("object", objects_, value);
            else if (field == "file" || field == "exe_file" || field == "cwd_file")
                refer("file", files_, value);
            else if (field == "open_file" || field == "peer_open_file" || field == "epoll")
                refer("open file", open_files_, value);
        }
    }

  private:
    template <class R>
    static void collect(std::set<uint32_t> &to, const std::vector<R> &from)
    {
        for (const R &r : from)
            to.insert(r.id);
    }
    void refer(const char *what, const std::set<uint32_t> &known, uint32_t id)
    {
        if (id && !known.contains(id))
            finding(fmt::format("refers to {} {}, which is not there", what, id));
    }
    void region(const Region &r)
    {
        if (r.end <= r.start || r.start % kPageSize || r.end % kPageSize)
            finding("has an impossible range of addresses");
        else if (r.start < region_end_)
            finding("overlaps the region before it");
        region_end_ = std::max(region_end_, r.end);
    }
    void finding(const std::string &text)
    {
        if (findings_.size() < kMostFindings)
            findings_.push_back({at_->offset, label_of(*at_) + " " + text});
    }

    const Description &about_;
    const StoredRecord *at_ = nullptr;
    std::set<uint32_t> files_;
    std::set<uint32_t> open_files_;
    std::set<uint32_t> objects_;
    uint64_t region_end_ = 0;
    std::vector<Finding> findings_;
};

struct Verdict {
    std::string name;
    std::vector<Finding> findings;
    std::string passed = {}; // what was checked
};

// The image, and those that it is based on.
void check_image(Image &image, std::vector<Finding> &findings, unsigned depth)
{
    auto add = [&](const std::vector<Finding> &more) {
        findings.insert(findings.end(), more.begin(), more.end());
    };
    add(image.verify(kMostFindings));
    if (!image.header().is_delta())
        return;
    auto base = image.base();
    if (!base)
        return findings.push_back({0, base.error().text()});
    if (depth == kMaxDeltaDepth)
        return findings.push_back({0, "too many images are based on each other"});
    std::vector<Finding> below;
    check_image(**base, below, depth + 1);
    for (const Finding &f : below)
        findings.push_back({f.offset, fmt::format("in its base {}: {}", (*base)->name(), f.text)});
}

Verdict check_entry(const Input &input, const Source &source, const Entry &entry)
{
    Verdict out{.name = entry.name, .findings = {}};
    if (entry.error) {
        out.findings.push_back({0, entry.error->text()});
        return out;
    }
    // A stream has been verified to its last byte by reading it.
    if (source.snapshot) {
        auto image = input.open(source, entry);
        if (!image)
            out.findings.push_back({0, image.error().text()});
        else
            check_image(**image, out.findings, 0);
    }
    auto references = References(entry.about).check();
    out.findings.insert(out.findings.end(), references.begin(), references.end());
    out.passed =
        fmt::format("{}, {}, {}", count_text(entry.about.footer.records, "record", "records"),
                    count_text(entry.about.footer.packages, "package", "packages"),
                    size_text(entry.about.footer.length));
    return out;
}

Json verdict_json(const Verdict &verdict)
{
    Json findings = Json::array();
    for (const Finding &f : verdict.findings)
        findings.push_back({{"offset", f.offset}, {"text", f.text}});
    return {{"name", verdict.name}, {"good", verdict.findings.empty()}, {"findings", findings}};
}

void print_verdict(const Verdict &verdict, const Output &out)
{
    std::string name = printable(verdict.name);
    if (verdict.findings.empty()) {
        out.print("{}: {}: {}\n", name, out.good("good"), verdict.passed);
        return;
    }
    out.print("{}: {}\n", name,
              out.bad(count_text(verdict.findings.size(), "finding", "findings")));
    for (const Finding &f : verdict.findings)
        out.print("  at {:#x}: {}\n", f.offset, printable(f.text));
}

} // namespace

int verify(const Input &input, const Options &options, const Output &out)
{
    bool good = true;
    Json all = Json::array();
    for (const std::string &file : options.files) {
        Source source = input.load(file);
        std::vector<Verdict> verdicts;
        if (source.error)
            verdicts.push_back({file, {{0, source.error->text()}}});
        for (const Entry &e : source.entries)
            verdicts.push_back(check_entry(input, source, e));
        for (const Verdict &v : verdicts) {
            good = good && v.findings.empty();
            if (options.json)
                all.push_back(verdict_json(v));
            else
                print_verdict(v, out);
        }
        if (source.error && !options.json)
            if (std::string more = diagnose(file); !more.empty())
                out.print("  {}\n", more);
    }
    if (options.json)
        print_json({{"json_version", 1}, {"images", all}});
    return good ? kGood : kDamaged;
}

} // namespace cryo::inspect
