/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blcr_common.h: BLCR has a part of its interface in this header, and some programs include it by
 * its name. All of it is in libcr.h here.
 */
#ifndef CRYO_BLCR_COMMON_H
#define CRYO_BLCR_COMMON_H

#include "libcr.h"

#endif
