// SPDX-License-Identifier: Apache-2.0
// cr_delta: keeps versions of files as deltas, whatever checkpointer made them.
#include <csignal>
#include <cstdio>

#include "cli/command.hpp"
#include "verbs.hpp"

namespace cryo::delta {

namespace {

Result<void> run(const Options &options)
{
    switch (options.verb) {
    case Verb::add:
        return add(options);
    case Verb::restore:
        return restore(options);
    case Verb::list:
        return list(options);
    case Verb::merge:
        return merge(options);
    case Verb::prune:
        return prune(options);
    case Verb::verify:
        return verify(options);
    case Verb::sign:
        return sign(options);
    case Verb::make:
        return make(options);
    case Verb::apply:
        return apply(options);
    }
    return Error(EINVAL, "no such command");
}

} // namespace

} // namespace cryo::delta

static int run(int argc, char **argv)
{
    using namespace cryo;
    using namespace cryo::delta;
    signal(SIGPIPE, SIG_IGN); // a reader of -o - that goes away is an error like any other
    signal(SIGXFSZ, SIG_IGN); // so is a file that may not grow
    Options options;
    if (std::optional<int> done = parse(argc, argv, options))
        return *done;
    auto ok = run(options);
    if (!ok)
        return cli::fail(kCommand, Error(ok.error().code(), cli::printable(ok.error().text())));
    if (!cli::Output::finish())
        return cli::fail(kCommand, Error(EIO, "standard output: cannot be written"));
    return 0;
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_delta", [&] { return run(argc, argv); });
}
