// SPDX-License-Identifier: Apache-2.0
// iostreams: unflushed output, half-read input, formatting state, a stringstream.
#include "probe.h"

#include <fstream>
#include <iomanip>
#include <iostream>
#include <sstream>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const std::string path = probe_path("text");
    std::ofstream(path) << "10 20 30 40 50 60 70 80 90\n";
    std::ifstream in(path);
    std::ofstream out(probe_path("out"));
    std::ostringstream memory;
    memory << std::hex << std::setfill('.');
    int sum = 0, value = 0;
    in >> value;
    do {
        in >> value;
        sum += value;
        out << "value " << value << ' ';
        probe_ready();
        PROBE_SABOTAGE("next number", in >> value);
        PROBE_SABOTAGE("formatting", memory << std::dec);
        const int expected = 10 * (static_cast<int>(probe_cycle()) + 1);
        probe_equal("number read before", expected,
                    value - (probe_sabotaged("next number") ? 10 : 0));
        probe_equal("next number in the buffer", expected + 10, (in >> value, value));
        in.seekg(3 * (static_cast<int>(probe_cycle()) + 1) - 1);
        memory.str("");
        memory << std::setw(6) << 255;
        probe_equal_text("formatting state", "....ff", memory.str().c_str());
        out.flush();
        probe_equal("size of the flushed output", 9 * static_cast<long long>(probe_cycle()),
                    static_cast<long long>(out.tellp()));
    } while (probe_more());
    return probe_pass();
}
