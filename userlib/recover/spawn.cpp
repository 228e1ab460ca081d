// SPDX-License-Identifier: Apache-2.0
#include "recover/spawn.hpp"

#include <spawn.h>
#include <unistd.h>

namespace cryo::recover {

Result<pid_t> spawn(std::vector<std::string> words, int inherited, const sigset_t &blocked)
{
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // To its own number: it stays open in the new program.
    posix_spawn_file_actions_adddup2(&actions, inherited, inherited);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = 0;
    const int error =
        posix_spawn(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return Error::from_errno(words.front(), error);
    return child;
}

} // namespace cryo::recover
