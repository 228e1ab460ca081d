// SPDX-License-Identifier: Apache-2.0
// Shows versions, as text or as JSON.
#include "base/print.hpp"
#include "verbs.hpp"

namespace cryo::delta {

using namespace cryo::cli;
using namespace cryo::image;

namespace {

std::string numbers(const std::vector<const Entry *> &chain)
{
    std::string out;
    for (size_t i = chain.size(); i-- > 0;)
        out += (out.empty() ? "" : " ") + std::to_string(chain[i]->number);
    return out;
}

const char *packing_name(Packing packing)
{
    static constexpr const char *names[] = {"raw", "lz4", "zstd", "shuffle", "fast", "auto"};
    return names[static_cast<size_t>(packing)];
}

bool is_there(const Entry &entry)
{
    return id_of_file(entry.path) == entry.id;
}

void list_service(const Options &options, const Service &service, const Output &out)
{
    const State &state = service.state();
    Json versions = Json::array();
    Columns table({Align::right, Align::left, Align::right, Align::right, Align::left, Align::left,
                   Align::left});
    table.add({"version", "", "blocks", "image", "needs", "taken", "file"});
    for (const Entry &e : state.entries) {
        if (e.state == DeltaState::removed)
            continue;
        auto chain = state.chain(e);
        if (options.json) {
            Json json = json_of(e);
            json["present"] = is_there(e);
            json["needs"] = Json::array();
            for (size_t i = chain.size(); i-- > 0;)
                json["needs"].push_back(chain[i]->number);
            versions.push_back(std::move(json));
            continue;
        }
        std::string what = e.base_id ? fmt::format("on {}", e.base_number) : "complete";
        if (e.state == DeltaState::superseded)
            what += ", superseded";
        table.add({fmt::format("{}", e.number), what, fmt::format("{}/{}", e.changed, e.blocks),
                   size_text(e.stored), numbers(chain), time_text(e.created),
                   printable(e.path) + (is_there(e) ? "" : out.bad("  missing"))});
    }
    const Settings &s = state.settings;
    const Entry *base = state.by_id(state.base.image);
    if (options.json) {
        print_json(options, {{"series", state.series.hex()},
                             {"next", state.next},
                             {"base", base ? Json(base->number) : Json()},
                             {"mode", name_of(s.policy.mode)},
                             {"threshold", s.policy.threshold / 1000.0},
                             {"most_images", s.policy.most_images},
                             {"block_size", s.block_size},
                             {"package_blocks", s.package_blocks},
                             {"codec", packing_name(s.packing)},
                             {"versions", std::move(versions)}});
        return;
    }
    out.print("{}", table.text(0));
    out.print("{}\n",
              out.faint(fmt::format("{}, B = {:g}, at most {} images; blocks of {}; base: {}",
                                    name_of(s.policy.mode), s.policy.threshold / 1000.0,
                                    s.policy.most_images, size_text(s.block_size),
                                    base ? fmt::format("version {}", base->number) : "none yet")));
}

void list_image(const Version &version, const Output &out)
{
    const About &a = version.about();
    std::string what = !a.has_contents             ? "signature"
                       : a.base == DeltaBase::none ? "complete"
                       : a.base == DeltaBase::file ? "delta on a plain file"
                                                   : "delta";
    if (a.base == DeltaBase::image)
        what += fmt::format(" on version {}", a.base_number);
    out.print("{}: {}{}, {} of {} blocks of {}; {}, {}\n", printable(version.name()),
              a.number ? fmt::format("version {}, ", a.number) : "", what, a.changed, a.blocks(),
              size_text(a.block_size), printable(a.name), size_text(a.size));
}

} // namespace

std::string words_of(const Entry &entry)
{
    if (!entry.base_id)
        return fmt::format("complete, {}", count_text(entry.blocks, "block", "blocks"));
    return fmt::format("delta on version {}, {} of {} blocks", entry.base_number, entry.changed,
                       entry.blocks);
}

Json json_of(const Entry &e)
{
    return {{"number", e.number},
            {"image", e.path},
            {"id", e.id.hex()},
            {"checksum", e.checksum.hex()},
            {"base", e.base_id ? Json(e.base_number) : Json()},
            {"base_id", e.base_id ? Json(e.base_id.hex()) : Json()},
            {"state", name_of(e.state)},
            {"size", e.size},
            {"stored", e.stored},
            {"blocks", e.blocks},
            {"changed", e.changed},
            {"created", e.created}};
}

Json json_of(const About &a)
{
    return {{"number", a.number ? Json(a.number) : Json()},
            {"kind", a.has_contents ? "contents" : "signature"},
            {"base", name_of(a.base)},
            {"base_number", a.base_number ? Json(a.base_number) : Json()},
            {"block_size", a.block_size},
            {"size", a.size},
            {"blocks", a.blocks()},
            {"last_block", a.last_block()},
            {"changed", a.changed},
            {"content", a.content.hex()},
            {"base_content", a.base == DeltaBase::none ? Json() : Json(a.base_content.hex())},
            {"name", a.name},
            {"mode", a.mode},
            {"modified", a.modified}};
}

void print_json(const Options &, Json json)
{
    Json out{{"json_version", 1}};
    out.update(json);
    // File names may be any bytes: invalid UTF-8 is replaced, as JSON cannot hold it.
    cryo::print("{}\n", out.dump(2, ' ', true, Json::error_handler_t::replace));
}

Result<void> list(const Options &options)
{
    Output out;
    if (!options.service.empty()) {
        auto service = Service::open(options.service, Service::Use::read);
        if (!service)
            return service.error();
        if (options.arguments.empty())
            list_service(options, **service, out);
    }
    Json images = Json::array();
    for (const std::string &path : options.arguments) {
        auto version = Version::open(path);
        if (!version)
            return version.error();
        if (!options.json) {
            list_image(**version, out);
            continue;
        }
        Json json = json_of((*version)->about());
        json["image"] = path;
        images.push_back(std::move(json));
    }
    if (options.json && !options.arguments.empty())
        print_json(options, {{"images", std::move(images)}});
    return {};
}

} // namespace cryo::delta
