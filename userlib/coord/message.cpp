// SPDX-License-Identifier: Apache-2.0
#include "coord/message.hpp"

#include "coord/frame.hpp"
#include "coord/image_options.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <span>

namespace cryo::coord {

namespace {

using nlohmann::json;

enum class Kind : uint8_t {
    flag,
    number,  // of at most `most`
    real,    // seconds
    text,    // of at most `most` bytes
    name,    // of a file in a directory: text without '/', and neither "." nor ".."
    path,    // a text that begins with '/'
    numbers, // at most `most` of them
    sizes,   // the same, of bytes
    triples, // at most `most` times three numbers
    texts,   // at most `most` of them, each of at most most_text bytes
    words,   // as texts, none longer than most_word bytes
    object,  // with the fields of `inside`
    objects, // at most `most` of them
};

struct Field {
    const char *name;
    Kind kind;
    uint64_t most = 0;
    bool needed = true;
    std::span<const Field> inside = {};
};

struct Form {
    Type type;
    Speaker from;
    const char *name;
    std::span<const Field> fields;
};

constexpr uint64_t most_text = 1U << 16;
constexpr uint64_t most_path = 4096;
constexpr uint64_t most_word = 256;
constexpr uint64_t most_number = ~uint64_t(0);
constexpr uint64_t most_index = ~uint32_t(0);
constexpr uint64_t most_pid = 1U << 22;
constexpr uint64_t most_errno = 4095;
constexpr uint64_t most_notices = 1024;
constexpr uint64_t most_files = 16384;      // of a set's members, each
constexpr uint64_t most_nodes = 64;         // of a set
constexpr uint64_t most_lease = 1ULL << 53; // in nanoseconds: a hundred days
constexpr uint64_t most_chain = 64;         // images that one needs
constexpr uint64_t most_image = 1ULL << 60;
constexpr int most_depth = 8;

constexpr bool optional = false;

constexpr Field checkpoint_number = {"checkpoint", Kind::number, most_number};
constexpr Field rank_number = {"rank", Kind::number, most_ranks - 1};
constexpr Field generation = {"generation", Kind::number, most_number};
constexpr Field addresses = {"addresses", Kind::words, 64};
constexpr Field port = {"port", Kind::number, 65535};
constexpr Field error = {"error", Kind::text, most_text, optional};
constexpr Field error_code = {"code", Kind::number, most_errno, optional};

constexpr Field join[] = {addresses, port};
constexpr Field joined[] = {{"lease_ns", Kind::number, most_lease, optional}};
constexpr Field only_number[] = {{"number", Kind::number, most_number}};
constexpr Field rank[] = {rank_number,
                          {"ranks", Kind::number, most_ranks},
                          {"pid", Kind::number, most_pid},
                          {"space", Kind::text, most_word}};
constexpr Field rank_gone[] = {rank_number, {"well", Kind::flag, 0, optional}};
constexpr Field ends[] = {rank_number, {"by_itself", Kind::flag}};
constexpr Field only_rank[] = {rank_number};
constexpr Field rank_refused[] = {
    rank_number, {"pid", Kind::number, most_pid}, {"error", Kind::text, most_text}};
constexpr Field only_generation[] = {generation};
constexpr Field only_error[] = {{"error", Kind::text, most_text}};
constexpr Field only_checkpoint[] = {checkpoint_number};
constexpr Field encoded[] = {
    checkpoint_number, error, error_code, {"bytes", Kind::number, most_number, optional}};
constexpr Field prepared[] = {checkpoint_number, error};
constexpr Field cut[] = {checkpoint_number, rank_number};
constexpr Field image[] = {checkpoint_number,
                           rank_number,
                           error,
                           error_code,
                           {"bytes", Kind::number, most_number, optional},
                           {"threads", Kind::number, most_number, optional},
                           {"stopped_ns", Kind::number, most_number, optional},
                           {"notices", Kind::texts, most_notices, optional},
                           {"checksum", Kind::text, most_word, optional},
                           {"needs", Kind::numbers, most_chain, optional},
                           {"described", Kind::flag, 0, optional}};

constexpr Field image_progress[] = {rank_number, {"bytes", Kind::number, most_number}};
constexpr Field alive[] = {{"images", Kind::objects, most_ranks, true, image_progress}};

// Of the daemons below one, and of itself (joined_reports.hpp). Nodes by their numbers in the tree,
// and ranks, both as runs.
constexpr Field joined_deltas[] = {{"ranks", Kind::numbers, 2 * most_ranks},
                                   {"needs", Kind::numbers, most_chain}};
constexpr Field reports[] = {{"checkpoint", Kind::number, most_number, optional},
                             {"prepared", Kind::numbers, 2 * most_ranks, optional},
                             {"cut", Kind::numbers, 2 * most_ranks, optional},
                             {"local", Kind::numbers, 2 * most_ranks, optional},
                             {"images", Kind::numbers, 2 * most_ranks, optional},
                             {"bytes", Kind::sizes, most_ranks, optional},
                             {"total", Kind::number, most_number, optional},
                             {"checksums", Kind::words, most_ranks, optional},
                             {"deltas", Kind::objects, most_ranks, optional, joined_deltas},
                             {"stopped_ns", Kind::number, most_number, optional},
                             {"notices", Kind::texts, most_ranks, optional},
                             {"look", Kind::number, most_number, optional},
                             {"alive", Kind::numbers, 2 * most_ranks, optional},
                             {"growing", Kind::numbers, 2 * most_ranks, optional},
                             {"sizes", Kind::sizes, most_ranks, optional}};
constexpr Field look[] = {{"number", Kind::number, most_number, optional}};

constexpr Field parent[] = {addresses, port, {"key", Kind::text, most_word}};
constexpr Field place[] = {generation,
                           {"index", Kind::number, most_index},
                           {"parent", Kind::object, 0, optional, parent},
                           {"daemons", Kind::numbers, most_ranks},
                           {"ranks", Kind::numbers, most_ranks},
                           {"keys", Kind::words, most_ranks, optional},
                           {"nodes", Kind::number, most_ranks, optional},
                           {"runs", Kind::triples, most_ranks}};
constexpr bool of_job(const cli::CommonOption &option)
{
    return option.job.help != nullptr;
}

constexpr auto how_to_save = [] {
    std::array<Field, std::ranges::count_if(cli::common_options, of_job) + std::ssize(image_flags)>
        fields = {};
    Field *next = fields.data();
    for (const cli::CommonOption &option : cli::common_options) {
        if (of_job(option))
            *next++ = {option.name, Kind::text, most_word, optional};
    }
    for (const ImageFlag &flag : image_flags)
        *next++ = {flag.name, Kind::flag, 0, optional};
    return fields;
}();
// The level of the nodes' own directories (docs/stores.md).
constexpr Field local_level[] = {{"directory", Kind::path, most_path},
                                 {"name", Kind::name, most_word},
                                 {"keep", Kind::number, most_index},
                                 {"rate", Kind::number, most_number},
                                 {"alone", Kind::flag, 0, optional}};
constexpr Field prepare[] = {checkpoint_number,
                             {"directory", Kind::path, most_path},
                             {"token", Kind::text, most_word},
                             {"options", Kind::object, 0, true, how_to_save},
                             {"hold", Kind::flag},
                             {"counted", Kind::flag, 0, optional},
                             {"previous", Kind::number, most_index, optional},
                             {"local", Kind::object, 0, optional, local_level}};
constexpr Field finish[] = {{"checkpoint", Kind::number, most_number, optional},
                            {"after", Kind::text, most_word},
                            {"redundant", Kind::flag, 0, optional}};

// A set of nodes, and which of them is spoken to. Names of files are made of these numbers by those
// who use them.
constexpr Field set_image[] = {rank_number,
                               {"pid", Kind::number, most_pid},
                               {"bytes", Kind::number, most_number},
                               {"checksum", Kind::text, most_word}};
constexpr Field set_member[] = {{"node", Kind::text, most_word},
                                {"images", Kind::objects, most_files, true, set_image},
                                {"key", Kind::text, most_word, optional},
                                {"addresses", Kind::words, 64, optional},
                                {"port", Kind::number, 65535, optional}};
constexpr Field encode[] = {checkpoint_number,
                            {"id", Kind::name, most_word},
                            {"redundancy", Kind::text, most_word},
                            {"member", Kind::number, most_nodes - 1},
                            {"members", Kind::objects, most_nodes, true, set_member}};

constexpr Field node_rack[] = {{"node", Kind::text, most_word}, {"rack", Kind::text, most_word}};
constexpr Field what_to_save[] = {{"directory", Kind::path, most_path},
                                  {"reference", Kind::name, most_word, optional},
                                  {"after", Kind::text, most_word, optional},
                                  {"keep", Kind::number, most_index, optional},
                                  {"patience", Kind::number, 1U << 30, optional},
                                  {"follow", Kind::flag, 0, optional},
                                  {"local", Kind::path, most_path, optional},
                                  {"keep_local", Kind::number, most_index, optional},
                                  {"copy_rate", Kind::number, most_number, optional},
                                  {"redundancy", Kind::text, most_word, optional},
                                  {"racks", Kind::objects, most_ranks, optional, node_rack}};
constexpr auto checkpoint = [] {
    std::array<Field, std::size(what_to_save) + how_to_save.size()> fields = {};
    std::copy(how_to_save.begin(), how_to_save.end(),
              std::copy(std::begin(what_to_save), std::end(what_to_save), fields.begin()));
    return fields;
}();

constexpr Field state[] = {{"state", Kind::text, most_word}};
constexpr Field missing[] = {{"text", Kind::text, most_text},
                             {"rank", Kind::number, most_index, optional},
                             {"node", Kind::text, most_word, optional}};
constexpr Field images[] = {{"done", Kind::number, most_ranks},
                            {"cut", Kind::number, most_ranks},
                            {"of", Kind::number, most_ranks}};
constexpr Field rank_status[] = {
    rank_number, {"pid", Kind::number, most_pid}, {"node", Kind::text, most_word}};
constexpr Field status[] = {
    {"job", Kind::text, most_word},         {"launcher", Kind::number, most_pid},
    {"state", Kind::text, most_word},       {"ranks", Kind::objects, most_ranks, true, rank_status},
    {"expected", Kind::number, most_ranks}, {"ready", Kind::flag},
    {"why", Kind::text, most_text},         {"checkpoints", Kind::number, most_number}};
constexpr Field end[] = {{"ok", Kind::flag},
                         error,
                         error_code,
                         {"reference", Kind::name, most_word, optional},
                         {"path", Kind::path, most_path, optional},
                         {"seq", Kind::number, most_index, optional},
                         {"ranks", Kind::number, most_ranks, optional},
                         {"bytes", Kind::number, most_number, optional},
                         {"seconds", Kind::real, 0, optional},
                         {"longest_stop_ns", Kind::number, most_number, optional},
                         {"needs", Kind::numbers, most_ranks, optional},
                         {"redundancy", Kind::text, most_word, optional},
                         {"parity_bytes", Kind::number, most_number, optional},
                         {"notices", Kind::texts, most_ranks, optional}};

// A server of images. Names of files are made of both parts (server/depot.hpp).
constexpr Field series = {"series", Kind::name, most_word, optional};
constexpr Field image_name = {"name", Kind::name, most_word};
constexpr Field image_bytes = {"bytes", Kind::number, most_image};
constexpr Field image_checksum = {"checksum", Kind::text, most_word};
constexpr Field put[] = {series, image_name, image_bytes, {"replace", Kind::flag}};
constexpr Field complete[] = {image_checksum};
constexpr Field find[] = {series, image_name};
// The image whose name comes after that one, and others after it.
constexpr Field list[] = {series, {"name", Kind::name, most_word, optional}};
constexpr Field read[] = {{"offset", Kind::number, most_image},
                          {"length", Kind::number, most_piece}};
constexpr Field remove[] = {series, image_name, image_checksum};
constexpr Field stored[] = {series,
                            image_name,
                            image_bytes,
                            image_checksum,
                            {"number", Kind::number, most_number},
                            {"when_ns", Kind::number, most_number}};
constexpr Field listing[] = {{"images", Kind::objects, most_listed, true, stored},
                             {"more", Kind::flag},
                             {"used", Kind::number, most_number},
                             {"quota", Kind::number, most_number}};
constexpr Field took[] = {image_bytes};
constexpr Field failed[] = {{"error", Kind::text, most_text}, {"code", Kind::number, most_errno}};

constexpr Form forms[] = {
    {Type::join, Speaker::newcomer, "join", join},
    {Type::rank, Speaker::member, "rank", rank},
    {Type::rank_gone, Speaker::member, "rank_gone", rank_gone},
    {Type::placed, Speaker::member, "placed", only_generation},
    {Type::unplaced, Speaker::member, "unplaced", only_error},
    {Type::prepared, Speaker::member, "prepared", prepared},
    {Type::cut, Speaker::member, "cut", cut},
    {Type::image, Speaker::member, "image", image},
    {Type::local, Speaker::member, "local", cut},
    {Type::encoded, Speaker::member, "encoded", encoded},
    {Type::idle, Speaker::member, "idle", only_checkpoint},
    {Type::alive, Speaker::member, "alive", alive},
    {Type::reports, Speaker::member, "reports", reports},
    {Type::renew, Speaker::member, "renew", only_number},
    {Type::leaving, Speaker::member, "leaving", {}},
    {Type::ends, Speaker::member, "ends", ends},
    {Type::joined, Speaker::coordinator, "joined", joined},
    {Type::renewed, Speaker::coordinator, "renewed", only_number},
    {Type::rank_refused, Speaker::coordinator, "rank_refused", rank_refused},
    {Type::may_end, Speaker::coordinator, "may_end", only_rank},
    {Type::place, Speaker::coordinator, "place", place},
    {Type::prepare, Speaker::coordinator, "prepare", prepare},
    {Type::cancel, Speaker::coordinator, "cancel", only_checkpoint},
    {Type::finish, Speaker::coordinator, "finish", finish},
    {Type::encode, Speaker::coordinator, "encode", encode},
    {Type::look, Speaker::coordinator, "look", look},
    {Type::go_on, Speaker::coordinator, "continue", {}},
    {Type::checkpoint, Speaker::command, "checkpoint", checkpoint},
    {Type::status_wanted, Speaker::command, "status", {}},
    {Type::call_off, Speaker::command, "cancel", {}},
    {Type::continue_wanted, Speaker::command, "continue", {}},
    {Type::state, Speaker::job, "state", state},
    {Type::missing, Speaker::job, "missing", missing},
    {Type::waiting, Speaker::job, "waiting", {}},
    {Type::working, Speaker::job, "working", {}},
    {Type::images, Speaker::job, "images", images},
    {Type::status, Speaker::job, "status", status},
    {Type::end, Speaker::job, "end", end},
    {Type::put, Speaker::sender, "put", put},
    {Type::complete, Speaker::sender, "complete", complete},
    {Type::list, Speaker::sender, "list", list},
    {Type::find, Speaker::sender, "find", find},
    {Type::read, Speaker::sender, "read", read},
    {Type::remove, Speaker::sender, "remove", remove},
    {Type::ready, Speaker::server, "ready", {}},
    {Type::took, Speaker::server, "took", took},
    {Type::kept, Speaker::server, "kept", stored},
    {Type::listing, Speaker::server, "listing", listing},
    {Type::removed, Speaker::server, "removed", {}},
    {Type::failed, Speaker::server, "failed", failed},
    {Type::working, Speaker::server, "working", {}},
};

const char *name_of(Type type)
{
    const auto *at = std::ranges::find(forms, type, &Form::type);
    return at != std::end(forms) ? at->name : "";
}

bool number_up_to(const json &value, uint64_t most)
{
    return value.is_number_unsigned() && value.get<uint64_t>() <= most;
}

bool text_up_to(const json &value, uint64_t most)
{
    // A NUL would end the text for some readers, and not for others.
    return value.is_string() && value.get_ref<const std::string &>().size() <= most &&
           value.get_ref<const std::string &>().find('\0') == std::string::npos;
}

bool is_name(const json &value, uint64_t most)
{
    if (!text_up_to(value, most))
        return false;
    const auto &text = value.get_ref<const std::string &>();
    return !text.empty() && text != "." && text != ".." && text.find('/') == std::string::npos;
}

template <class Good>
bool list_up_to(const json &value, uint64_t most, Good good)
{
    return value.is_array() && value.size() <= most && std::ranges::all_of(value, good);
}

// "": all fields are as the table has them; else what is wrong.
std::string compare(const json &object, std::span<const Field> fields, const char *besides);

bool fits(const json &value, const Field &field)
{
    switch (field.kind) {
    case Kind::flag:
        return value.is_boolean();
    case Kind::number:
        return number_up_to(value, field.most);
    case Kind::real:
        return value.is_number();
    case Kind::text:
        return text_up_to(value, field.most);
    case Kind::name:
        return is_name(value, field.most);
    case Kind::path:
        return text_up_to(value, field.most) && value.get_ref<const std::string &>()[0] == '/';
    case Kind::numbers:
        return list_up_to(value, field.most,
                          [](const json &one) { return number_up_to(one, most_index); });
    case Kind::sizes:
        return list_up_to(value, field.most,
                          [](const json &one) { return number_up_to(one, most_number); });
    case Kind::triples:
        return list_up_to(value, field.most, [](const json &one) {
            return one.size() == 3 && list_up_to(one, 3, [](const json &number) {
                       return number_up_to(number, most_index);
                   });
        });
    case Kind::texts:
        return list_up_to(value, field.most,
                          [](const json &one) { return text_up_to(one, most_text); });
    case Kind::words:
        return list_up_to(value, field.most,
                          [](const json &one) { return text_up_to(one, most_word); });
    case Kind::object:
        return value.is_object() && compare(value, field.inside, nullptr).empty();
    case Kind::objects:
        return list_up_to(value, field.most, [&](const json &one) {
            return one.is_object() && compare(one, field.inside, nullptr).empty();
        });
    }
    return false;
}

std::string compare(const json &object, std::span<const Field> fields, const char *besides)
{
    size_t known = besides != nullptr ? 1 : 0;
    for (const Field &field : fields) {
        const auto at = object.find(field.name);
        if (at == object.end() && field.needed)
            return fmt::format("'{}' is missing", field.name);
        if (at == object.end())
            continue;
        known++;
        if (!fits(*at, field))
            return fmt::format("'{}' is not what it has to be", field.name);
    }
    return known == object.size() ? "" : "there is something in it that does not belong there";
}

// Deep nesting would take many times as much memory as what is sent.
bool is_flat(std::string_view body)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < body.size(); i++) {
        if (quoted && body[i] == '\\')
            i++;
        else if (body[i] == '"')
            quoted = !quoted;
        else if (!quoted && (body[i] == '[' || body[i] == '{') && ++depth > most_depth)
            return false;
        else if (!quoted && (body[i] == ']' || body[i] == '}'))
            depth--;
    }
    return true;
}

} // namespace

std::string Message::pack() const
{
    json all = fields;
    all["type"] = name_of(type);
    return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Message> unpack(Speaker from, std::string_view body)
{
    json object = is_flat(body) ? json::parse(body, nullptr, false) : json();
    if (!object.is_object())
        return Error(EPROTO, "no message");
    const auto said = object.find("type");
    if (said == object.end() || !said->is_string())
        return Error(EPROTO, "a message without a type");
    const auto *form = std::ranges::find_if(
        forms, [&](const Form &one) { return one.from == from && *said == one.name; });
    if (form == std::end(forms))
        return Error(EPROTO, "a message of unknown type, perhaps of another version of Cryo");
    if (const std::string wrong = compare(object, form->fields, "type"); !wrong.empty())
        return Error(EPROTO, fmt::format("message '{}': {}", form->name, wrong));
    return Message(form->type, std::move(object));
}

} // namespace cryo::coord
