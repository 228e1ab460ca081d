// SPDX-License-Identifier: Apache-2.0
// The order of exit: atexit functions and static destructors in reverse order, buffers flushed.
#include "probe.h"

#include <string>

namespace {

std::string order;

// Registered first, so run last: it gives the verdict.
struct Judge {
    ~Judge()
    {
        PROBE_SABOTAGE("order", order = "lost");
        probe_equal_text("order at exit", "atexit static(function) atexit(late) static(second) ",
                         (order.substr(order.find(' ') + 1)).c_str());
        _exit(probe_pass());
    }
} judge;

struct Named {
    std::string name;
    ~Named() { order += "static(" + name + ") "; }
} second{"second"};

void use_static_in_function()
{
    static const Named inside{"function"};
}

} // namespace

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    order = "start ";
    std::atexit([] { order += "atexit(late) "; });
    use_static_in_function();
    std::atexit([] { order += "atexit "; });
    do {
        probe_ready();
    } while (probe_more());
    return 3; // the exit status if the judge does not run
}
