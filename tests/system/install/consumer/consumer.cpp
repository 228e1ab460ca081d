// SPDX-License-Identifier: Apache-2.0
#include <iostream>
#include <libcr.h>

int main()
{
    std::cout << cr_version_string() << ": " << cr_strerror(CR_ENOINIT) << '\n';
}
