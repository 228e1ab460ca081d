// SPDX-License-Identifier: Apache-2.0
#include "baseline.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace {

// All features by which glibc chooses its functions, the dynamic
// linker's way of saving registers, and the directories of libraries for
// newer CPUs. A release of glibc that does not know a name ignores it.
constexpr std::string_view without =
    "-AVX,-AVX2,-AVX512BW,-AVX512CD,-AVX512DQ,-AVX512ER,-AVX512F,-AVX512PF,-AVX512VL,"
    "-AVX_Fast_Unaligned_Load,-BMI1,-BMI2,-ERMS,-F16C,-FMA,-FMA4,-FSRM,-Fast_Unaligned_Copy,"
    "-Fast_Unaligned_Load,-LZCNT,-MOVBE,-OSXSAVE,-POPCNT,-Prefer_ERMS,-Prefer_FSRM,"
    "-Prefer_No_VZEROUPPER,-RTM,-SSE3,-SSE4_1,-SSE4_2,-SSSE3,-XSAVE,-XSAVEC";
constexpr std::string_view name = "glibc.cpu.hwcaps=";

} // namespace

// If a tunable occurs twice, only one counts: the user's features are merged with ours.
std::string baseline_tunables(const std::string &present)
{
    std::string others;
    std::string features;
    std::string_view rest = present;
    while (!rest.empty()) {
        const std::string_view one = rest.substr(0, rest.find(':'));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        if (one.substr(0, name.size()) == name)
            features += std::string(one.substr(name.size())) + ",";
        else if (!one.empty())
            others += std::string(one) + ":";
    }
    return others + std::string(name) + features + std::string(without);
}

void choose_baseline_cpu()
{
    const char *present = getenv("GLIBC_TUNABLES");
    setenv("GLIBC_TUNABLES", baseline_tunables(present != nullptr ? present : "").c_str(), 1);
    setenv("CRYO_CPU", "baseline", 1); // cr_checkpoint notes it in the image
}
