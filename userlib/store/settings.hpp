// SPDX-License-Identifier: Apache-2.0
//
// Which server is spoken to, and as whom: from the environment variables and files that the AWS
// command line has, in its order. Nothing of this is on a command line, where others see it, nor in
// a message.
//
//     Result<Settings> settings = Settings::from_environment();
#pragma once

#include "base/result.hpp"

#include <functional>
#include <string>

namespace cryo::store {

struct Settings {
    std::string endpoint =
        {};                // "https://s3.eu-central-1.amazonaws.com", without a slash at its end
    std::string host = {}; // of it, with the port if there is one
    std::string region = {};
    std::string access_key = {}, secret_key = {};
    std::string session_token = {}; // "": the keys are not temporary
    std::string certificates = {};  // file of those that are trusted; "": the system's

    // How an environment variable is read, and a file: tests give others.
    using Variable = std::function<std::string(const char *name)>; // "": not set
    using File = std::function<Result<std::string>(const std::string &path)>;
    static Result<Settings> from(const Variable &variable, const File &file);

    static Result<Settings> from_environment();
};

} // namespace cryo::store
