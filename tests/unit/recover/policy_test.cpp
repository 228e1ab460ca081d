// SPDX-License-Identifier: Apache-2.0
//
// The file of --recover=FILE: what it says, and what is said of mistakes in it.
#include "recover/policy.hpp"

#include <csignal>
#include <gtest/gtest.h>

namespace cryo::recover {
namespace {

std::string mistake(const std::string &text)
{
    const Result<Policy> policy = parse_policy(text, "p.toml");
    return policy ? "" : policy.error().text();
}

TEST(Policy, ThatIsEmptyIsTheDefault)
{
    const Result<Policy> policy = parse_policy("# nothing\n", "p.toml");
    ASSERT_TRUE(policy);
    EXPECT_EQ(policy->signals, Policy().signals);
    EXPECT_EQ(policy->limit, 3U);
    EXPECT_TRUE(policy->exits.empty());
    EXPECT_TRUE(policy->begins_again);
}

TEST(Policy, HasWhatTheFileSays)
{
    const Result<Policy> policy = parse_policy("[recovery]\n"
                                               "protocol = \"coordinated\"\n"
                                               "without_image = \"give-up\"\n"
                                               "[[fault]]\n"
                                               "detector = \"process\"\n"
                                               "recover = \"restart\"\n"
                                               "signals = [\"SIGKILL\", \"TERM\"]\n"
                                               "exits = [1, 255]\n"
                                               "limit = 7\n",
                                               "p.toml");
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->signals, (std::set<int>{SIGKILL, SIGTERM}));
    EXPECT_EQ(policy->exits, (std::set<int>{1, 255}));
    EXPECT_EQ(policy->limit, 7U);
    EXPECT_FALSE(policy->begins_again);
}

TEST(Policy, NamesTheNearestOfWhatIsUnknown)
{
    EXPECT_EQ(mistake("[recovery]\nwithout_images = \"begin\"\n"),
              "p.toml:2: in [recovery], 'without_images' is unknown (did you mean "
              "'without_image'?)");
    EXPECT_EQ(mistake("[[fault]]\n\nlimits = 3\n"),
              "p.toml:3: in [[fault]], 'limits' is unknown (did you mean 'limit'?)");
    EXPECT_EQ(mistake("[[fault]]\nsignals = [\"KIL\"]\n"),
              "p.toml:2: signal 'KIL' is unknown (did you mean 'KILL'?)");
    EXPECT_EQ(mistake("[recover]\n"),
              "p.toml:1: the table 'recover' is unknown (did you mean 'recovery'?)");
    EXPECT_EQ(mistake("[[fault]]\nrecover = \"xyzzy\"\n"),
              "p.toml:2: recover 'xyzzy' is unknown (known: restart, transfer)");
}

TEST(Policy, RefusesByNameWhatJobsAloneWillHave)
{
    for (const char *word : {"ignore", "migration"})
        EXPECT_EQ(mistake(std::string("[[fault]]\nrecover = \"") + word + "\"\n"),
                  std::string("p.toml:2: recover = \"") + word +
                      "\": here there is only \"restart\" and \"transfer\"");
    EXPECT_NE(mistake("[[fault]]\ndetector = \"network\"\n").find("only \"process\" and "),
              std::string::npos);
    EXPECT_NE(mistake("[recovery]\nprotocol = \"pessimistic\"\n").find("only \"coordinated\""),
              std::string::npos);
}

TEST(Policy, HasMemoryForTheNewestImage)
{
    const std::string transfer = "[[fault]]\nrecover = \"transfer\"\n";
    const Result<Policy> policy = parse_policy(transfer + "memory = \"4GiB\"\n", "p.toml");
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->standby, uint64_t(4) << 30);
    EXPECT_EQ(parse_policy(transfer + "memory = \"500k\"\n", "p.toml")->standby, 500U * 1024);
    EXPECT_FALSE(Policy().standby);
    EXPECT_FALSE(policy->maps);
    EXPECT_TRUE(parse_policy(transfer + "memory = \"4GiB\"\nlazy = true\n", "p.toml")->maps);
    EXPECT_EQ(mistake(transfer + "memory = \"4GiB\"\nlazy = 1\n"),
              "p.toml:4: lazy has to be true or false");
    EXPECT_EQ(mistake("[[fault]]\nlazy = true\n"),
              "p.toml:2: lazy belongs to recover = \"transfer\"");
    EXPECT_EQ(mistake(transfer),
              "p.toml:2: recover = \"transfer\" wants to know how much memory an "
              "image may take, such as memory = \"4GiB\"");
    for (const char *size : {"4", "\"\"", "\"0\"", "\"many\"", "\"-1G\"", "\"4 parsecs\"", "\"G\"",
                             "\"99999999999G\"", "true"})
        EXPECT_EQ(mistake(transfer + "memory = " + size + "\n"),
                  "p.toml:3: memory has to be a size above 0, such as \"4GiB\"")
            << size;
    EXPECT_EQ(mistake("[[fault]]\nrecover = \"restart\"\nmemory = \"4GiB\"\n"),
              "p.toml:3: memory belongs to recover = \"transfer\"");
}

TEST(Policy, HoldsNothingForLostNodes)
{
    const std::string nodes = "[[fault]]\ndetector = \"physical\"\n";
    EXPECT_EQ(
        mistake(nodes + "recover = \"transfer\"\n"),
        "p.toml:3: recover = \"transfer\": of nodes there is only \"migration\", since images "
        "are held in the memory of the node of cr_run alone");
    EXPECT_EQ(mistake(nodes + "recover = \"restart\"\n"),
              "p.toml:3: recover = \"restart\": here there is only \"migration\"");
}

TEST(Policy, HasSparesForNodes)
{
    const Result<Policy> policy = parse_policy("[[fault]]\n"
                                               "limit = 7\n"
                                               "[[fault]]\n"
                                               "detector = \"physical\"\n"
                                               "recover = \"migration\"\n"
                                               "spares = [\"n9\", \"n10.cluster\"]\n"
                                               "pack = false\n",
                                               "p.toml");
    ASSERT_TRUE(policy) << policy.error().text();
    EXPECT_EQ(policy->spares, (std::vector<std::string>{"n9", "n10.cluster"}));
    EXPECT_FALSE(policy->packs);
    EXPECT_EQ(policy->limit, 7U);
    EXPECT_TRUE(Policy().packs);
}

TEST(Policy, NamesMistakesInWhatItSaysOfNodes)
{
    const std::string nodes = "[[fault]]\ndetector = \"physical\"\n";
    EXPECT_EQ(mistake(nodes + "spare = []\n"),
              "p.toml:3: in [[fault]] of nodes, 'spare' is unknown "
              "(did you mean 'spares'?)");
    for (const char *line : {"spares = \"n9\"\n", "spares = [9]\n", "spares = [\"n9:4\"]\n",
                             "spares = [\"-x\"]\n", "pack = 1\n", "limit = 3\n"})
        EXPECT_TRUE(mistake(nodes + line).starts_with("p.toml:3:"))
            << line << mistake(nodes + line);
    EXPECT_EQ(mistake(nodes + nodes),
              "p.toml:3: there are two [[fault]] with detector = \"physical\"");
}

TEST(Policy, RefusesValuesOfAnotherKind)
{
    for (const char *text :
         {"recovery = 1\n", "fault = 1\n", "fault = []\n", "[[fault]]\n[[fault]]\n",
          "[[fault]]\nlimit = 0\n", "[[fault]]\nlimit = 1001\n", "[[fault]]\nlimit = \"3\"\n",
          "[[fault]]\nsignals = \"KILL\"\n", "[[fault]]\nsignals = [9]\n",
          "[[fault]]\nexits = [0]\n", "[[fault]]\nexits = [256]\n", "[[fault]]\nexits = 3\n",
          "[recovery]\nwithout_image = true\n", "[recovery\n", "\xff\n"})
        EXPECT_TRUE(mistake(text).starts_with("p.toml:")) << text << mistake(text);
}

TEST(Policy, RefusesSignalsThatEndNoProgram)
{
    for (const char *name :
         {"STOP", "SIGSTOP", "TSTP", "CONT", "CHLD", "TTIN", "TTOU", "URG", "WINCH"})
        EXPECT_TRUE(mistake(std::string("[[fault]]\nsignals = [\"") + name + "\"]\n")
                        .ends_with("ends no program"))
            << name;
}

TEST(Policy, ThatCannotBeReadIsAnError)
{
    const Result<Policy> policy = read_policy("/nowhere/p.toml");
    ASSERT_FALSE(policy);
    EXPECT_NE(policy.error().text().find("/nowhere/p.toml"), std::string::npos);
}

TEST(SignalName, IsThatOfTheManual)
{
    EXPECT_EQ(signal_name(SIGKILL), "SIGKILL");
    EXPECT_EQ(signal_name(SIGRTMIN), "signal 34");
}

} // namespace
} // namespace cryo::recover
