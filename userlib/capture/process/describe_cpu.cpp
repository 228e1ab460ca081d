// SPDX-License-Identifier: Apache-2.0
#include "capture/process/describe.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace cryo::capture {

void describe_cpu(Description &d)
{
    CpuFacts facts = d.cpu_facts;
    d.cpu.vendor = d.strings.keep(std::move(facts.vendor));
    d.cpu.model = d.strings.keep(std::move(facts.model));
    d.cpu.features = d.strings.keep(std::move(facts.features));
    d.cpu.xcr0 = facts.xcr0;
    d.cpu.xsave_size = facts.xsave_size;
    const std::string all = '\0' + d.environment;
    const auto variable = [&](std::string_view name) {
        const std::string key = '\0' + std::string(name) + '=';
        const size_t at = all.find(key);
        return at == std::string::npos ? std::string() : std::string(all.c_str() + at + key.size());
    };
    d.cpu.tunables = d.strings.keep(variable("GLIBC_TUNABLES"));
    d.cpu.baseline = variable("CRYO_CPU") == "baseline";
}

} // namespace cryo::capture
