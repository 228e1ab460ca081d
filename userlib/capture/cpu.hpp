// SPDX-License-Identifier: Apache-2.0
//
// What a program may rely on in this machine's CPU.
#pragma once

#include "image/records.hpp"

#include <string>

namespace cryo::capture {

struct Description;

struct CpuFacts {
    std::string vendor, model;
    std::string features; // those by which libraries choose code, as /proc/cpuinfo names them
    uint64_t xcr0 = 0;    // register sets that the system saves
    uint32_t xsave_size = 0;
};

// `cpuinfo`: the text of /proc/cpuinfo.
CpuFacts cpu_facts(const std::string &cpuinfo);
CpuFacts present_cpu();

// What is in `saved` and not in `here`, for a person; empty: the program can run here.
std::string missing_in_cpu(const image::Cpu &saved, const CpuFacts &here);

// From d.cpu_facts, which were found before the program stood still.
void describe_cpu(Description &d);

} // namespace cryo::capture
