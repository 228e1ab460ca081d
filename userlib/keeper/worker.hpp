// SPDX-License-Identifier: Apache-2.0
//
// Runs one command and returns its result.
//
//     Done done = run({"/usr/bin/cr_checkpoint", "--json", "-f", "context.000001", "412"});
#pragma once

#include <string>
#include <vector>

namespace cryo::keeper {

struct Done {
    int status = 0;   // as waitpid() tells it
    double cpu_s = 0; // that it used
    double elapsed_s = 0;
    std::string output;   // standard output
    std::string messages; // standard error
};

Done run(std::vector<std::string> words);

double monotonic_now();

} // namespace cryo::keeper
