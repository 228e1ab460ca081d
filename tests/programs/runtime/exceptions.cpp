// SPDX-License-Identifier: Apache-2.0
// C++ exceptions: one in flight in a catch block, one kept by exception_ptr, and new ones through
// frames that were on the stack.
#include "probe.h"

#include <exception>
#include <stdexcept>
#include <string>

namespace {

struct Unwound {
    int &count;
    ~Unwound() { count++; }
};

void throw_through_frames(int depth, int &unwound)
{
    const Unwound here{unwound};
    if (depth == 0) {
        throw std::runtime_error("from below");
    }
    throw_through_frames(depth - 1, unwound);
}

} // namespace

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    std::exception_ptr kept;
    try {
        throw std::out_of_range("kept " + std::string(100, 'x'));
    } catch (...) {
        kept = std::current_exception();
    }
    bool more = true;
    while (more) {
        int unwound = 0;
        try {
            throw std::logic_error("in flight");
        } catch (const std::logic_error &) {
            probe_ready();
            PROBE_SABOTAGE("kept", kept = nullptr);
            PROBE_SABOTAGE("unwound", unwound--);
            try {
                throw_through_frames(50, unwound);
            } catch (const std::runtime_error &error) {
                probe_equal_text("exception from below", "from below", error.what());
            }
            probe_equal("frames unwound", 51, unwound);
            try {
                throw;
            } catch (const std::logic_error &again) {
                probe_equal_text("exception in flight", "in flight", again.what());
            }
            probe_true("exception kept", kept != nullptr);
            try {
                std::rethrow_exception(kept);
            } catch (const std::out_of_range &error) {
                probe_equal_text("text of the exception kept",
                                 ("kept " + std::string(100, 'x')).c_str(), error.what());
            }
            more = probe_more();
        }
    }
    return probe_pass();
}
