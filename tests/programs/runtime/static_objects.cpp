// SPDX-License-Identifier: Apache-2.0
// Static objects are initialised once, before main, and not again; function statics likewise.
#include "probe.h"

#include <map>
#include <string>

namespace {

int initialised = 0;

struct Table {
    std::map<std::string, int> entries{{"one", 1}, {"two", 2}};
    Table() { initialised++; }
} table;

int &counter()
{
    static int value = (initialised += 10, 100);
    return value;
}

} // namespace

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    counter()++;
    int expected = 101;
    do {
        table.entries[std::to_string(probe_cycle())] = static_cast<int>(probe_cycle());
        probe_ready();
        PROBE_SABOTAGE("initialised", initialised++);
        PROBE_SABOTAGE("entries", table.entries.erase("one"));
        probe_equal("times initialised", 11, initialised);
        probe_equal("function static", expected++, counter()++);
        probe_equal("entries", 2 + probe_cycle(), static_cast<long long>(table.entries.size()));
        probe_equal("entry", 2, table.entries.at("two"));
    } while (probe_more());
    return probe_pass();
}
