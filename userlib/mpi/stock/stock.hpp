// SPDX-License-Identifier: Apache-2.0
//
// The stock library's own header, as the wrappers need it, and what is particular to the library:
// openmpi/abi.hpp or mpich/abi.hpp.
#pragma once

#include "abi.hpp"
