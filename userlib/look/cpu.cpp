// SPDX-License-Identifier: Apache-2.0
#include "look/cpu.hpp"

#include "base/contents.hpp"

#include <cpuid.h>
#include <set>
#include <sstream>

namespace cryo::capture {

namespace {

// Features by which glibc, and most libraries that check, choose code. Other flags (virtual
// machines, power management, kernel) do not matter to a program.
const std::set<std::string, std::less<>> chosen_by = {
    "abm",         "adx",
    "aes",         "amx_bf16",
    "amx_int8",    "amx_tile",
    "avx",         "avx2",
    "avx512_bf16", "avx512_bitalg",
    "avx512_fp16", "avx512_vbmi2",
    "avx512_vnni", "avx512_vpopcntdq",
    "avx512bw",    "avx512cd",
    "avx512dq",    "avx512f",
    "avx512ifma",  "avx512vbmi",
    "avx512vl",    "avx_vnni",
    "bmi1",        "bmi2",
    "clflushopt",  "clwb",
    "cx16",        "erms",
    "f16c",        "fma",
    "fma4",        "fsgsbase",
    "fsrm",        "gfni",
    "lahf_lm",     "movbe",
    "movdir64b",   "movdiri",
    "pclmulqdq",   "pku",
    "pni",         "popcnt",
    "prefetchwt1", "rdpid",
    "rdrand",      "rdseed",
    "rdtscp",      "rtm",
    "serialize",   "sha_ni",
    "sse4_1",      "sse4_2",
    "sse4a",       "ssse3",
    "tbm",         "vaes",
    "vpclmulqdq",  "waitpkg",
    "xop",         "xsavec",
    "xsaveopt",
};

std::set<std::string, std::less<>> words(std::string_view text)
{
    std::istringstream in{std::string(text)};
    std::set<std::string, std::less<>> all;
    for (std::string word; in >> word;)
        all.insert(word);
    return all;
}

std::string line_of(const std::string &cpuinfo, std::string_view key)
{
    const size_t at = cpuinfo.find(key);
    if (at == std::string::npos)
        return {};
    const size_t colon = cpuinfo.find(": ", at);
    return cpuinfo.substr(colon + 2, cpuinfo.find('\n', at) - colon - 2);
}

uint64_t xgetbv0()
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0)
        return 3; // x87 and SSE
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return static_cast<uint64_t>(d) << 32 | a;
}

uint32_t xsave_size()
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid_count(0xd, 0, &a, &b, &c, &d) != 0 ? b : 0;
}

} // namespace

CpuFacts cpu_facts(const std::string &cpuinfo)
{
    CpuFacts facts;
    facts.vendor = line_of(cpuinfo, "vendor_id");
    facts.model = line_of(cpuinfo, "model name");
    for (const std::string &word : words(line_of(cpuinfo, "\nflags"))) {
        if (chosen_by.count(word) != 0)
            facts.features += (facts.features.empty() ? "" : " ") + word;
    }
    return facts;
}

CpuFacts present_cpu()
{
    // Without /proc only what the instructions below report is known.
    const Result<std::string> text = contents("/proc/cpuinfo");
    CpuFacts facts = cpu_facts(text ? *text : "");
    facts.xcr0 = xgetbv0();
    facts.xsave_size = xsave_size();
    return facts;
}

std::string missing_in_cpu(const image::Cpu &saved, const CpuFacts &here)
{
    std::string missing;
    const auto add = [&](std::string_view name) {
        missing += (missing.empty() ? "" : " ") + std::string(name);
    };
    const std::set<std::string, std::less<>> present = words(here.features);
    // A baseline program has chosen no code by features, but it has all saved registers.
    for (const std::string &word : words(saved.features)) {
        if (!saved.baseline && present.count(word) == 0)
            add(word);
    }
    const struct {
        uint64_t bits;
        std::string_view name;
    } sets[] = {
        {4, "registers:avx"},       {0x18, "registers:mpx"},    {0xe0, "registers:avx512"},
        {1 << 9, "registers:pkru"}, {0x60000, "registers:amx"},
    };
    for (const auto &[bits, name] : sets) {
        if ((saved.xcr0 & ~here.xcr0 & bits) != 0)
            add(name);
    }
    return missing;
}

} // namespace cryo::capture
