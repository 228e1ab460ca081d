// SPDX-License-Identifier: Apache-2.0
//
// Every field of every record comes from the list that its type gives of itself, so that nothing
// can be forgotten here. Keys do not change: a type's key is its name in lower case, and each
// known type has its list, empty or not.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/print.hpp"
#include "fields.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kJsonVersion = 1;

class FieldJson
{
  public:
    explicit FieldJson(Json &to) : to_(to) {}

    template <class T>
    void operator()(const char *name, const T &value, Show = Show::decimal)
    {
        if constexpr (std::is_same_v<T, bool> || (std::is_integral_v<T> && !std::is_enum_v<T>))
            to_[name] = value;
        else if constexpr (Named<T>)
            to_[name] = name_of(value);
        else if constexpr (std::is_same_v<T, std::string_view>)
            to_[name] = std::string(value);
        else if constexpr (is_list<T>) {
            to_[name] = Json::array();
            for (size_t i = 0; i < value.size(); i++)
                to_[name].push_back(value[i]);
        } else {
            to_[name] = hex_text(Bytes(value));
        }
    }

  private:
    Json &to_;
};

std::string key_of(const char *name)
{
    std::string key(name);
    std::ranges::transform(key, key.begin(), [](char c) { return char(tolower(c)); });
    return key;
}

Json header_json(const Header &h)
{
    return {{"version", h.version},
            {"oldest_reader", h.oldest_reader},
            {"machine", h.machine},
            {"role", h.role == Role::tree   ? "tree"
                     : h.role == Role::file ? "file"
                                            : "process"},
            {"page_size", h.page_size},
            {"package_blocks", h.package_blocks},
            {"features", h.features},
            {"hints", h.hints},
            {"id", h.id.hex()},
            {"base_id", h.is_delta() ? Json(h.base_id.hex()) : Json()},
            {"base_checksum", h.is_delta() ? Json(h.base_checksum.hex()) : Json()},
            {"created", h.created},
            {"kernel", h.kernel}};
}

Json pages_json(const PageCounts &pages)
{
    return {{"data", pages.data}, {"zero", pages.zero}, {"base", pages.base}};
}

Json codecs_json(const std::optional<Statistics> &s)
{
    if (!s)
        return nullptr;
    Json out = Json::object();
    for (unsigned c = 0; c < kCodecCount; c++)
        out[name_of(static_cast<Codec>(c))] = {
            {"packages", s->packages[c]}, {"bytes", s->raw[c]}, {"stored", s->stored[c]}};
    return out;
}

Json records_json(const Description &about)
{
    Json out = Json::object();
    AllRecords::each([&]<class R>() { out[key_of(name_of(R::type))] = Json::array(); });
    out["unknown"] = Json::array();
    for (const StoredRecord &stored : about.records) {
        bool known = with_record_type(stored.type, [&]<class R>() {
            R record;
            if (!decode(stored.payload, record))
                return;
            Json fields = Json::object();
            R::fields(record, FieldJson(fields));
            if constexpr (std::is_same_v<R, Region>)
                fields["in_image"] = pages_json(about.pages_of(record));
            out[key_of(name_of(R::type))].push_back(std::move(fields));
        });
        if (!known)
            out["unknown"].push_back({{"type", static_cast<uint32_t>(stored.type)},
                                      {"version", stored.version},
                                      {"offset", stored.offset},
                                      {"payload", hex_text(stored.payload)}});
    }
    return out;
}

Json image_json(const Entry &entry)
{
    if (entry.error)
        return {{"name", entry.name}, {"error", entry.error->text()}};
    const Description &about = entry.about;
    return {{"name", entry.name},
            {"error", nullptr},
            {"offset", about.offset},
            {"length", about.footer.length},
            {"checksum", about.footer.checksum.hex()},
            {"header", header_json(about.header)},
            {"pages", pages_json(about.pages())},
            {"packages", about.footer.packages},
            {"stored", about.footer.stored},
            {"codecs", codecs_json(about.statistics)},
            {"bases", about.lacks ? Json() : Json(about.bases)},
            {"lacks", about.lacks ? Json(about.lacks->text()) : Json()},
            {"arguments", about.arguments()},
            {"environment", about.environment()},
            {"records", records_json(about)}};
}

Json source_json(const Source &source)
{
    Json members = Json::array();
    for (const SnapshotMember &m : source.members)
        members.push_back({{"pid", m.pid},
                           {"ppid", m.ppid},
                           {"pgid", m.pgid},
                           {"sid", m.sid},
                           {"comm", m.comm},
                           {"state", name_of(m.state)},
                           {"wait_status", m.wait_status},
                           {"name", m.name},
                           {"offset", m.place.offset},
                           {"length", m.place.length},
                           {"id", m.id.hex()},
                           {"checksum", m.checksum.hex()}});
    Json images = Json::array();
    for (const Entry &e : source.entries)
        images.push_back(image_json(e));
    return {{"name", source.name},
            {"error", source.error ? Json(source.error->text()) : Json()},
            {"kind", source.kind},
            {"scope", name_of(source.scope)},
            {"root_pid", source.root_pid},
            {"members", std::move(members)},
            {"images", std::move(images)}};
}

} // namespace

void print_json(const Json &json)
{
    // File names may be any bytes: invalid UTF-8 is replaced, as JSON cannot hold it.
    cryo::print("{}\n", json.dump(2, ' ', true, Json::error_handler_t::replace));
}

int show_json(const std::vector<Source> &sources)
{
    Json snapshots = Json::array();
    bool good = true;
    for (const Source &s : sources) {
        snapshots.push_back(source_json(s));
        good = good && !s.error &&
               std::ranges::none_of(s.entries, [](const Entry &e) { return e.error.has_value(); });
        if (s.error)
            complain(*s.error, s.name);
    }
    print_json({{"json_version", kJsonVersion}, {"snapshots", std::move(snapshots)}});
    return good ? kGood : kDamaged;
}

} // namespace cryo::inspect
