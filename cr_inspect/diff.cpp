// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compare.hpp"
#include "fields.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;
using Json = nlohmann::ordered_json;

namespace {

struct FieldDifference {
    std::string name;
    std::string first;
    std::string second;
};

struct RecordDifference {
    std::string label;
    const char *change; // "changed", "only in the first", "only in the second"
    std::vector<FieldDifference> fields = {};
};

// Records by what they are about; several about the same thing are numbered in their order.
std::map<std::pair<RecordType, std::string>, const StoredRecord *>
by_label(const Description &about)
{
    std::map<std::pair<RecordType, std::string>, const StoredRecord *> out;
    std::map<std::string, int> seen;
    for (const StoredRecord &r : about.records) {
        std::string label = label_of(r);
        if (int n = seen[label]++)
            label += fmt::format(" ({})", n + 1);
        out[{r.type, label}] = &r;
    }
    return out;
}

std::vector<FieldDifference> compare_fields(const StoredRecord &a, const StoredRecord &b)
{
    auto first = fields_of(a);
    auto second = fields_of(b);
    std::vector<FieldDifference> out;
    for (size_t i = 0; i < std::min(first.size(), second.size()); i++)
        if (first[i].text != second[i].text)
            out.push_back({first[i].name, first[i].text, second[i].text});
    if (out.empty())
        out.push_back({"payload", fmt::format("{} bytes", a.payload.size()),
                       fmt::format("{} other bytes", b.payload.size())});
    return out;
}

std::vector<RecordDifference> compare_records(const Description &a, const Description &b)
{
    auto first = by_label(a);
    auto second = by_label(b);
    std::vector<RecordDifference> out;
    for (const auto &[key, record] : first) {
        auto other = second.find(key);
        if (other == second.end())
            out.push_back({key.second, "only in the first"});
        else if (other->second->payload != record->payload)
            out.push_back({key.second, "changed", compare_fields(*record, *other->second)});
    }
    for (const auto &[key, record] : second)
        if (!first.contains(key))
            out.push_back({key.second, "only in the second"});
    return out;
}

std::string range_text(const PageDifference &in, const PageRange &r)
{
    if (in.memory)
        return fmt::format("{:x}-{:x}", r.first * kPageSize, (r.first + r.count) * kPageSize);
    if (r.count == 1)
        return fmt::format("page {}", r.first);
    return fmt::format("pages {}-{}", r.first, r.first + r.count - 1);
}

void print_records(const std::vector<RecordDifference> &records, const Options &options,
                   const Output &out)
{
    constexpr size_t kFields = 4;
    for (const RecordDifference &r : records) {
        if (r.fields.empty()) {
            out.print("  {}: {}\n", r.label, r.change);
            continue;
        }
        out.print("  {}:", r.label);
        size_t shown = options.all ? r.fields.size() : std::min(kFields, r.fields.size());
        for (size_t i = 0; i < shown; i++)
            out.print("{} {} {} → {}", i ? "," : "", r.fields[i].name, r.fields[i].first,
                      r.fields[i].second);
        if (shown < r.fields.size())
            out.print(", and {} more", r.fields.size() - shown);
        out.print("\n");
    }
}

void print_pages(const std::vector<PageDifference> &pages, const Options &options,
                 const Output &out)
{
    constexpr size_t kRanges = 4;
    for (const PageDifference &p : pages) {
        out.print("  {}: {} of {} differ:", p.where, p.different,
                  count_text(p.compared, "page", "pages"));
        size_t shown = options.all ? p.ranges.size() : std::min(kRanges, p.ranges.size());
        for (size_t i = 0; i < shown; i++)
            out.print("{} {}", i ? "," : "", range_text(p, p.ranges[i]));
        if (shown < p.ranges.size())
            out.print(", and {} more", count_text(p.ranges.size() - shown, "range", "ranges"));
        out.print("\n");
    }
}

Json to_json(const std::vector<RecordDifference> &records, const std::vector<PageDifference> &pages)
{
    Json record_list = Json::array();
    for (const RecordDifference &r : records) {
        Json fields = Json::array();
        for (const FieldDifference &f : r.fields)
            fields.push_back({{"name", f.name}, {"first", f.first}, {"second", f.second}});
        record_list.push_back({{"label", r.label}, {"change", r.change}, {"fields", fields}});
    }
    Json page_list = Json::array();
    for (const PageDifference &p : pages) {
        Json ranges = Json::array();
        for (const PageRange &r : p.ranges)
            ranges.push_back({{"first", r.first}, {"count", r.count}});
        page_list.push_back({{"where", p.where},
                             {"compared", p.compared},
                             {"different", p.different},
                             {"ranges", ranges}});
    }
    return {{"json_version", 1},
            {"same", records.empty() && pages.empty()},
            {"records", record_list},
            {"pages", page_list}};
}

} // namespace

int show_difference(const Input &input, const Options &options, const Output &out)
{
    std::unique_ptr<Image> images[2];
    Description about[2];
    for (int i = 0; i < 2; i++) {
        auto image = input.open_only(options.files[i]);
        auto described = image ? Description::of(**image) : image.error();
        if (!described) {
            complain(described.error(), options.files[i]);
            return kDamaged;
        }
        images[i] = std::move(*image);
        about[i] = std::move(*described);
    }
    auto records = compare_records(about[0], about[1]);
    auto pages = compare_pages(*images[0], about[0], *images[1], about[1]);
    if (!pages) {
        complain(pages.error(), options.files[0]);
        return kDamaged;
    }
    bool same = records.empty() && pages->empty();
    if (options.json) {
        print_json(to_json(records, *pages));
        return same ? kGood : kDifferent;
    }
    uint64_t different = 0;
    for (const PageDifference &p : *pages)
        different += p.different;
    out.print("{}\n", same ? "They say the same."
                           : fmt::format("{} and {} of pages differ",
                                         count_text(records.size(), "record", "records"),
                                         pages_text(different)));
    print_records(records, options, out);
    print_pages(*pages, options, out);
    return same ? kGood : kDifferent;
}

} // namespace cryo::inspect
