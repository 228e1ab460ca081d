// SPDX-License-Identifier: Apache-2.0
//
// Messages of a command while it works and at its end, as -v, -q, --json and --kmsg-... choose.
//
//     Talk talk("cr_checkpoint");
//     talk.add_options(app);
//     options.phase = talk.phases();
//     options.progress = talk.progress("context.412");
//     ...
//     talk.notices(outcome.notices);
//     talk.result("context.412: 3 threads", {{"image", "context.412"}});
//     return talk.fail(error);
#pragma once

#include "base/result.hpp"
#include "cli/progress.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cryo::cli {

using Json = nlohmann::ordered_json;

class Talk
{
  public:
    explicit Talk(std::string command);

    void add_options(CLI::App &app);

    // Reports the phase that has just ended, and how long it took. Empty if not requested.
    std::function<void(std::string_view)> phases();
    // Remarks on how the work is done, such as which backend works and why. Empty if not requested.
    std::function<void(std::string_view)> remarks();
    // A bar on a terminal, until end_progress().
    std::function<void(uint64_t done, uint64_t total)> progress(const std::string &what);
    void end_progress() { line_.reset(); }

    void notices(const std::vector<std::string> &list);
    // Prints the sentence, or with --json the object, to `to`.
    void result(const std::string &sentence, Json object, FILE *to = stdout);
    // Prints the object to `to` with --json, the sentence on standard error with -v, else nothing:
    // for a command that is silent on success.
    void summary(const std::string &sentence, Json object, FILE *to);
    // As cli::fail().
    int fail(const Error &error, int value = 0);

    bool quiet() const { return quiet_; }

  private:
    enum class Messages { none, errors, all };
    void say(std::string_view text) const;
    void print(const Json &object, FILE *to) const;
    void print_complete(Json object, FILE *to) const;

    std::string command_;
    int verbose_ = 0;
    bool quiet_ = false;
    bool json_ = false;
    Messages messages_ = Messages::errors;
    uint64_t begun_, last_;
    Json phases_ = Json::array();
    Json notices_ = Json::array();
    std::unique_ptr<ProgressLine> line_;
};

} // namespace cryo::cli
