// SPDX-License-Identifier: Apache-2.0
#include "coord/message.hpp"

#include "cli/json_text.hpp"

#include <gtest/gtest.h>

using namespace cryo;
using namespace cryo::coord;

namespace {

bool taken(Speaker from, const std::string &body)
{
    return bool(unpack(from, body));
}

const std::string place = R"("generation":1,"index":1,"daemons":[2],"ranks":[0],"runs":[[0,1,0]])";

} // namespace

TEST(Messages, AreWhatTheTableSays)
{
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"cut","checkpoint":1,"rank":7})"));
    EXPECT_TRUE(taken(Speaker::coordinator, R"({"type":"place",)" + place + "}"));
    EXPECT_TRUE(taken(Speaker::command, R"({"type":"checkpoint","directory":"/d"})"));
    for (const char *body : {
             "", "{", "null", "7", "[]", "{}", R"({"type":7})", R"({"type":null})",
             R"({"type":"nothing"})",
             R"({"type":"cut"})",                                  // fields are missing
             R"({"type":"cut","checkpoint":1,"rank":7,"more":0})", // or too many
             R"({"type":"cut","checkpoint":1,"rank":-1})",         // wrong type
             R"({"type":"cut","checkpoint":1,"rank":1.5})",        //
             R"({"type":"cut","checkpoint":1,"rank":"7"})",        //
             R"({"type":"cut","checkpoint":1,"rank":4294967296})", // or size
             R"({"type":"cut","checkpoint":18446744073709551616,"rank":7})",
             R"({"type":"unplaced","error":"a\u0000b"})",
             R"({"type":"prepare","checkpoint":1})", // from another speaker
         })
        EXPECT_FALSE(taken(Speaker::member, body)) << body;
}

TEST(Messages, MayTellHowARankEnds)
{
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"rank_gone","rank":7})"));
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"rank_gone","rank":7,"well":true})"));
    EXPECT_FALSE(taken(Speaker::member, R"({"type":"rank_gone","rank":7,"well":1})"));
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"ends","rank":7,"by_itself":false})"));
    EXPECT_FALSE(taken(Speaker::member, R"({"type":"ends","rank":7})"));
    EXPECT_TRUE(taken(Speaker::coordinator, R"({"type":"may_end","rank":7})"));
    EXPECT_FALSE(taken(Speaker::member, R"({"type":"may_end","rank":7})"));
}

// Commands and daemons that do without levels send what they always did.
TEST(Messages, MayNameALevel)
{
    const std::string prepare =
        R"({"type":"prepare","checkpoint":1,"directory":"/d","token":"t","options":{},"hold":false)";
    const std::string level = R"("directory":"/dev/shm","name":"0a","keep":1,"rate":0)";
    EXPECT_TRUE(taken(Speaker::coordinator, prepare + "}"));
    EXPECT_TRUE(taken(Speaker::coordinator, prepare + R"(,"local":{)" + level + "}}"));
    for (const char *wrong : {R"("directory":"/dev/shm","keep":1,"rate":0)",
                              R"("directory":"shm","name":"0a","keep":1,"rate":0)",
                              R"("directory":"/dev/shm","name":"../0a","keep":1,"rate":0)",
                              R"("directory":"/dev/shm","name":"0a","keep":-1,"rate":0)"})
        EXPECT_FALSE(taken(Speaker::coordinator, prepare + R"(,"local":{)" + wrong + "}}"))
            << wrong;
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"local","checkpoint":1,"rank":7})"));
    EXPECT_FALSE(taken(Speaker::command, R"({"type":"local","checkpoint":1,"rank":7})"));
    EXPECT_TRUE(
        taken(Speaker::member, R"({"type":"image","checkpoint":1,"rank":7,"checksum":"0a"})"));
    EXPECT_TRUE(taken(Speaker::command, R"({"type":"checkpoint","directory":"/d","local":"/l",)"
                                        R"("keep_local":2,"copy_rate":1048576})"));
    EXPECT_FALSE(taken(Speaker::command, R"({"type":"checkpoint","directory":"/d","local":"l"})"));
}

TEST(Messages, MayNameASet)
{
    const auto encode = [](const std::string &more, const std::string &member) {
        return R"({"type":"encode","checkpoint":1,"id":"0a","redundancy":"xor","member":0,"members":[)" +
               member + "]" + more + "}";
    };
    const std::string image = R"({"rank":7,"pid":412,"bytes":1,"checksum":"0a"})";
    const std::string member = R"({"node":"n1","images":[)" + image + "]}";
    EXPECT_TRUE(taken(Speaker::coordinator, encode("", member)));
    EXPECT_TRUE(
        taken(Speaker::coordinator,
              encode("", R"({"node":"n1","images":[],"key":"00","addresses":["::1"],"port":9})")));
    EXPECT_FALSE(taken(Speaker::member, encode("", member)));
    EXPECT_FALSE(taken(Speaker::coordinator, encode(R"(,"more":1)", member)));
    for (const char *wrong :
         {R"({"node":"n1"})", R"({"images":[]})", R"({"node":"n1","images":[7]})",
          R"({"node":"n1","images":[{"rank":7,"pid":412,"bytes":1}]})",
          R"({"node":"n1","images":[{"rank":7,"pid":412,"bytes":-1,"checksum":"0a"}]})",
          R"({"node":"n1","images":[{"rank":7,"pid":"../1","bytes":1,"checksum":"0a"}]})",
          R"({"node":"n1","images":[],"name":"x"})", R"({"node":"n1","images":[],"port":65536})"})
        EXPECT_FALSE(taken(Speaker::coordinator, encode("", wrong))) << wrong;
    std::string many = member;
    for (int i = 0; i < 64; i++)
        many += "," + member;
    EXPECT_FALSE(taken(Speaker::coordinator, encode("", many)));
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"encoded","checkpoint":1,"bytes":9})"));
    EXPECT_TRUE(
        taken(Speaker::member, R"({"type":"encoded","checkpoint":1,"error":"e","code":28})"));
    EXPECT_FALSE(taken(Speaker::coordinator, R"({"type":"encoded","checkpoint":1,"bytes":9})"));
    EXPECT_TRUE(taken(Speaker::command,
                      R"({"type":"checkpoint","directory":"/d","local":"/l",)"
                      R"("redundancy":"xor","racks":[{"node":"a","rack":"b"}]})"));
    EXPECT_FALSE(
        taken(Speaker::command, R"({"type":"checkpoint","directory":"/d","racks":["a"]})"));
    EXPECT_TRUE(
        taken(Speaker::coordinator, R"({"type":"finish","after":"none","redundant":true})"));
}

TEST(Messages, MayBeOfAServerOfImages)
{
    const std::string put = R"({"type":"put","bytes":1,"replace":false,"name":)";
    EXPECT_TRUE(taken(Speaker::sender, put + R"("a"})"));
    EXPECT_TRUE(taken(Speaker::sender, put + R"("a","series":"s"})"));
    EXPECT_TRUE(taken(Speaker::sender, R"({"type":"list"})"));
    EXPECT_TRUE(taken(Speaker::sender, R"({"type":"read","offset":0,"length":262144})"));
    EXPECT_TRUE(taken(Speaker::server, R"({"type":"working"})"));
    for (const std::string &body :
         {put + R"("../a"})", put + R"(""})", put + R"("a","series":".."})", put + R"(7})",
          std::string(R"({"type":"put","bytes":1152921504606846977,"replace":false,"name":"a"})"),
          std::string(R"({"type":"read","offset":0,"length":262145})"),
          std::string(R"({"type":"kept"})"), std::string(R"({"type":"working"})"),
          std::string(R"({"type":"join","addresses":[],"port":1})")})
        EXPECT_FALSE(taken(Speaker::sender, body)) << body;
    EXPECT_FALSE(taken(Speaker::member, put + R"("a"})")); // no daemon of a job takes it
    EXPECT_FALSE(taken(Speaker::newcomer, put + R"("a"})"));
}

TEST(Messages, HaveNamesThatLeadNowhereElse)
{
    for (const char *name : {"", ".", "..", "a/b", "/a", "../../etc/cron.d/x", "a\\u0000b"})
        EXPECT_FALSE(
            taken(Speaker::command, std::string(R"({"type":"checkpoint","directory":"/d",)") +
                                        R"("reference":")" + name + "\"}"))
            << name;
    EXPECT_FALSE(taken(Speaker::command, R"({"type":"checkpoint","directory":"d"})"));
    EXPECT_FALSE(taken(Speaker::command, R"({"type":"checkpoint","directory":""})"));
}

TEST(Messages, AreNotDeep)
{
    const std::string deep = R"({"type":"unplaced","error":)" + std::string(1 << 20, '[');
    const Result<Message> refused = unpack(Speaker::member, deep);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "no message");
    // Brackets inside a string do not nest.
    EXPECT_TRUE(taken(Speaker::member, R"({"type":"unplaced","error":"[[[[[[[[[[\"[[[[["})"));
}

TEST(Messages, NameTheTextThatJsonCannotHold)
{
    const nlohmann::json sound = {{"a", "caf\u00e9"}, {"b", 3}, {"c", {"x", "y"}}};
    EXPECT_EQ(cli::not_utf8(sound), nullptr);
    nlohmann::json bad = sound;
    bad["d"] = "/caf\xe9";
    const std::string *text = cli::not_utf8(bad);
    ASSERT_NE(text, nullptr);
    EXPECT_EQ(*text, "/caf\xe9");
}

TEST(Messages, ComeBackAsTheyWere)
{
    const Message said(Type::end, {{"ok", true}, {"seconds", 0.5}, {"notices", {"a", "b"}}});
    const Result<Message> heard = unpack(Speaker::job, said.pack());
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->type, Type::end);
    EXPECT_EQ(heard->fields.at("notices").size(), 2U);
    // Invalid UTF-8, as in a path or an error, is sent as well as possible.
    EXPECT_TRUE(unpack(Speaker::member, Message(Type::unplaced, {{"error", "\xff/x"}}).pack()));
}
