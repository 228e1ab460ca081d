// SPDX-License-Identifier: Apache-2.0
//
// Each option of a rank's image comes to the daemons as the command has it.
#include "coord/image_options.hpp"

#include "coord/message.hpp"

#include <gtest/gtest.h>
#include <string>

using namespace cryo;
using namespace cryo::coord;

namespace {

// What the coordinator reads in the command's message, and a daemon in the coordinator's.
nlohmann::json arrived(const nlohmann::json &options)
{
    nlohmann::json wanted = options;
    wanted["directory"] = "/d";
    const Result<Message> asked =
        unpack(Speaker::command, Message(Type::checkpoint, std::move(wanted)).pack());
    if (!asked)
        return asked.error().text();
    const nlohmann::json whole = {{"checkpoint", 1},
                                  {"directory", "/d"},
                                  {"token", "t"},
                                  {"options", to_json(image_options(asked->fields))},
                                  {"hold", false}};
    const Result<Message> told = unpack(Speaker::coordinator, Message(Type::prepare, whole).pack());
    if (!told)
        return told.error().text();
    return to_json(image_options(told->fields.at("options")));
}

} // namespace

TEST(ImageOptions, AreTheUsualOnes)
{
    const ImageOptions usual = image_options(nlohmann::json::object());
    EXPECT_EQ("auto", usual.common.backend);
    EXPECT_TRUE(usual.fork);
    EXPECT_TRUE(usual.sync);
    EXPECT_FALSE(usual.files.save_exe || usual.files.save_private || usual.files.save_shared);
}

TEST(ImageOptions, ArriveAsTheyWere)
{
    const nlohmann::json usual = to_json(image_options(nlohmann::json::object()));
    EXPECT_EQ(usual, arrived(usual));
    for (const ImageFlag &flag : image_flags) {
        nlohmann::json other = usual;
        other[flag.name] = !usual.at(flag.name).get<bool>();
        EXPECT_EQ(other, arrived(other)) << flag.name;
    }
    for (const cli::CommonOption &option : cli::common_options) {
        nlohmann::json other = usual;
        other[option.name] = "always";
        const bool has = option.job.help != nullptr;
        EXPECT_EQ(has, other == arrived(other)) << option.name << ": " << arrived(other);
    }
}
