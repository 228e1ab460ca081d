// SPDX-License-Identifier: Apache-2.0
// The keeper of a program (userlib/keeper/launch.hpp starts it): settings on standard input, an
// error before the program starts on standard output, the program's pidfd as descriptor 3.
#include "base/contents.hpp"
#include "base/print.hpp"
#include "keeper/keeper.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <unistd.h>

namespace {

int run(int argc, char **argv)
{
    using namespace cryo::keeper;
    const cryo::Result<std::string> text = cryo::contents(STDIN_FILENO, "standard input");
    const nlohmann::json said = nlohmann::json::parse(text ? *text : "", nullptr, false);
    if (argc != 2 || !said.is_object() || fcntl(3, F_GETFD) < 0) {
        cryo::print(stderr, "keeper: this program is started by cr_run --interval\n");
        return 255;
    }
    Keeper keeper(said.get<Settings>(), static_cast<pid_t>(strtol(argv[1], nullptr, 10)),
                  cryo::Fd(3));
    const cryo::Result<void> ready = keeper.prepare();
    if (!ready) {
        cryo::print("{}", ready.error().text());
        return 1;
    }
    // Hold nothing that the program may wait for: pipes to be closed, or a mount to be removed.
    if (chdir("/") != 0 || freopen("/dev/null", "r", stdin) == nullptr ||
        freopen("/dev/null", "w", stdout) == nullptr)
        return 1;
    keeper.work();
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    // Inherited from the shell of the user, who may ignore the ends of children: then those of the
    // keeper's commands could not be read. A broken pipe, or a log that may not grow, does not end
    // the keeper.
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    try {
        return run(argc, argv);
    } catch (const std::exception &error) {
        cryo::print(stderr, "cryo: automatic checkpoints end here: {}\n", error.what());
        return 1;
    }
}
