// SPDX-License-Identifier: Apache-2.0
//
// make_channel_seeds DIRECTORY: writes typical messages of daemons, ranks and commands into
// DIRECTORY/seeds, as the initial corpus.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bookmark/wire.hpp"
#include "coord/frame.hpp"
#include "coord/message.hpp"
#include "coord/tls.hpp"

using namespace cryo;
using namespace cryo::coord;
using nlohmann::json;

namespace {

std::filesystem::path to;

void seed(const char *name, uint8_t speaker, const std::string &said)
{
    std::ofstream(to / name, std::ios::binary) << static_cast<char>(speaker) << said;
}

std::string framed(FrameKind kind, const std::string &body)
{
    FrameHeader header;
    header.length = static_cast<uint32_t>(body.size());
    header.kind = kind;
    return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + body;
}

std::string framed(Type type, const json &fields)
{
    return framed(FrameKind::json, Message(type, fields).pack());
}

std::string in_tree(bookmark::MessageType type)
{
    bookmark::Message message(type, 1);
    message.clocks.push_back({.comm = 1, .members = 4, .heard = 2, .low = 1, .high = 3});
    message.counts.push_back({2, {}});
    const auto bytes = bookmark::pack(message, std::pmr::get_default_resource());
    std::string text = {static_cast<char>(bytes.size()), 0};
    text.append(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    return text;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_channel_seeds DIRECTORY\n");
        return 255;
    }
    to = std::filesystem::path(argv[1]) / "seeds";
    std::filesystem::create_directories(to);
    const json addresses = json::array({"127.0.0.1"});
    seed("join", 0, framed(Type::join, {{"addresses", addresses}, {"port", 9}}));
    seed(
        "member", 1,
        framed(Type::rank, {{"rank", 0}, {"ranks", 2}, {"pid", 7}, {"space", "job"}}) +
            framed(Type::placed, {{"generation", 1}}) +
            framed(Type::prepared, {{"checkpoint", 1}}) +
            framed(Type::cut, {{"checkpoint", 1}, {"rank", 0}}) +
            framed(
                Type::image,
                {{"checkpoint", 1}, {"rank", 0}, {"bytes", 7}, {"notices", json::array({"one"})}}) +
            framed(Type::alive, {{"images", json::array({json{{"rank", 0}, {"bytes", 1}}})}}) +
            framed(Type::encoded, {{"checkpoint", 1}, {"bytes", 1}}) +
            framed(Type::idle, {{"checkpoint", 1}}));
    seed("coordinator", 2,
         framed(Type::joined, json::object()) +
             framed(Type::place,
                    {{"generation", 1},
                     {"index", 1},
                     {"parent", {{"addresses", addresses}, {"port", 9}, {"key", to_hex(Key{})}}},
                     {"daemons", json::array({2})},
                     {"ranks", json::array({0, 1})},
                     {"keys", json::array({to_hex(Key{})})},
                     {"runs", json::array({{0, 1, 0}})}}) +
             framed(Type::prepare, {{"checkpoint", 1},
                                    {"directory", "/d"},
                                    {"token", "t"},
                                    {"options", {{"fork", true}, {"compress", "none"}}},
                                    {"hold", false}}) +
             framed(Type::encode, {{"checkpoint", 1},
                                   {"id", "0a"},
                                   {"redundancy", "xor"},
                                   {"member", 0},
                                   {"members", json::array({json{{"node", "n"},
                                                                 {"images", json::array()},
                                                                 {"key", to_hex(Key{})},
                                                                 {"addresses", addresses},
                                                                 {"port", 9}}})}}) +
             framed(Type::cancel, {{"checkpoint", 1}}) + framed(Type::finish, {{"after", "none"}}));
    seed("command", 3,
         framed(Type::checkpoint, {{"directory", "/d"}, {"reference", "r"}, {"keep", 1}}) +
             framed(Type::status_wanted, json::object()));
    seed("answer", 4,
         framed(Type::state, {{"state", "running"}}) +
             framed(Type::images, {{"done", 1}, {"cut", 1}, {"of", 2}}) +
             framed(Type::end, {{"ok", true}, {"reference", "r"}, {"path", "/d"}, {"seq", 0}}));
    const json stored = {{"series", "s"},      {"name", "a"}, {"bytes", 1},
                         {"checksum", "0123"}, {"number", 1}, {"when_ns", 1}};
    seed("sender", 5,
         framed(Type::put, {{"series", "s"}, {"name", "a"}, {"bytes", 1}, {"replace", false}}) +
             framed(Type::complete, {{"checksum", "0123"}}) +
             framed(Type::list, {{"series", "s"}, {"name", "a"}}) +
             framed(Type::find, {{"name", "a"}}) +
             framed(Type::read, {{"offset", 0}, {"length", 1}}) +
             framed(Type::remove, {{"name", "a"}, {"checksum", "0123"}}));
    seed(
        "server", 6,
        framed(Type::ready, json::object()) + framed(Type::took, {{"bytes", 1}}) +
            framed(Type::kept, stored) +
            framed(Type::listing,
                   {{"images", json::array({stored})}, {"more", true}, {"used", 1}, {"quota", 0}}) +
            framed(Type::removed, json::object()) +
            framed(Type::failed, {{"error", "one"}, {"code", 1}}));
    std::string hello;
    Tls("join/a", Key{2}).take_output(hello);
    seed("stranger", 7, hello);
    using bookmark::MessageType;
    seed("root", 8,
         in_tree(MessageType::clocks) + in_tree(MessageType::clocks) +
             in_tree(MessageType::clocks) + in_tree(MessageType::ready) +
             in_tree(MessageType::state));
    seed("below", 9,
         in_tree(MessageType::request) + in_tree(MessageType::clocks) +
             in_tree(MessageType::targets) + in_tree(MessageType::expected));
    return 0;
}
