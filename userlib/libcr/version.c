// SPDX-License-Identifier: Apache-2.0
//
// Which Cryo this library came with. The build passes CRYO_VERSION.

#include "libcr.h"

const char *cr_version_string(void)
{
    return CRYO_VERSION;
}
