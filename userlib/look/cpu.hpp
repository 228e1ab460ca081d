// SPDX-License-Identifier: Apache-2.0
//
// The features of this machine's CPU that a program may depend on.
#pragma once

#include "image/records.hpp"

#include <string>

namespace cryo::capture {

struct CpuFacts {
    std::string vendor, model;
    std::string features; // those by which libraries choose code, named as in /proc/cpuinfo
    uint64_t xcr0 = 0;    // register sets that the kernel saves
    uint32_t xsave_size = 0;
};

// `cpuinfo`: the text of /proc/cpuinfo.
CpuFacts cpu_facts(const std::string &cpuinfo);
CpuFacts present_cpu();

// Readable list of what `saved` has and `here` lacks; empty: the program can run here.
std::string missing_in_cpu(const image::Cpu &saved, const CpuFacts &here);

} // namespace cryo::capture
