// SPDX-License-Identifier: Apache-2.0
//
// cr_run --cpu=baseline: libraries choose code that every x86-64 CPU has.
#pragma once

#include <string>

// GLIBC_TUNABLES that select such code, in addition to the present ones.
std::string baseline_tunables(const std::string &present);

// Sets the environment for the program and its children.
void choose_baseline_cpu();
