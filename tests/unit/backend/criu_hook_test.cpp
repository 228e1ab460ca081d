// SPDX-License-Identifier: Apache-2.0
#include "backend/criu_hook.hpp"

#include "../scratch.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;

class CriuHookTest : public testing::Test
{
  protected:
    const Scratch scratch_;
    const fs::path top_ = scratch_.path();
};

// As criu starts it when all is written: it ends with what it tells criu, 0 to go on.
pid_t start_hook(std::string variable)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("CRTOOLS_SCRIPT_ACTION", "post-dump", 1);
        putenv(variable.data());
        _exit(CriuHook::answer_criu().value_or(2));
    }
    return child;
}

int end_of(pid_t child)
{
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(CriuHookTest, TellsCriuWhatTheProcessSaysThatWaits)
{
    for (const bool leave : {true, false}) {
        const fs::path directory = top_ / (leave ? "leave" : "none");
        fs::create_directory(directory);
        Result<CriuHook> hook = CriuHook::make(directory);
        ASSERT_TRUE(hook);
        const pid_t child = start_hook(hook->environment());
        ASSERT_TRUE(hook->await(child));
        if (leave)
            EXPECT_TRUE(hook->give_leave());
        else
            hook->refuse();
        EXPECT_EQ(end_of(child), leave ? 0 : 1);
    }
}

TEST_F(CriuHookTest, ObeysNobodyWhoListensInThePlaceOfTheProcessThatWaited)
{
    const pid_t ended = fork();
    if (ended == 0)
        _exit(0);
    ASSERT_EQ(end_of(ended), 0);
    const std::string name = fmt::format("cryo-criu.{}.{}", ended, top_.filename().string());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(name.size(), sizeof(address.sun_path) - 1);
    memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr *>(&address), length), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);

    const pid_t child = start_hook("CRYO_CRIU_HOOK=" + name);
    const Fd connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(connection);
    const char go = 'g';
    static_cast<void>(send(connection.get(), &go, 1, MSG_NOSIGNAL)); // it may have hung up
    EXPECT_EQ(end_of(child), 1);
}

} // namespace

} // namespace cryo::backend
