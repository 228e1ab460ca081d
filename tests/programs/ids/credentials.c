// SPDX-License-Identifier: Apache-2.0
// User, group and supplementary groups, capabilities that were dropped, and the securebits.
#include "probe.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>

static struct __user_cap_data_struct *capabilities(void)
{
    static struct __user_cap_data_struct data[2];
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    PROBE_TRY(syscall(SYS_capget, &header, data));
    return data;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct *now = capabilities();
    now[0].effective &= ~(1u << CAP_NET_RAW);
    PROBE_TRY(prctl(PR_SET_KEEPCAPS, 1));
    if ((now[0].effective & 1u << CAP_SETPCAP) != 0) {
        PROBE_TRY(prctl(PR_SET_SECUREBITS,
                        SECBIT_KEEP_CAPS | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED));
        now[0].effective &= ~(1u << CAP_SETPCAP); // the capability needed to set them again
    }
    const int securebits = (int)PROBE_TRY(prctl(PR_GET_SECUREBITS));
    PROBE_TRY(syscall(SYS_capset, &header, now));
    const struct __user_cap_data_struct before[2] = {now[0], now[1]};
    uid_t uids[3], found_uids[3];
    gid_t groups[64], found_groups[64];
    PROBE_TRY(getresuid(&uids[0], &uids[1], &uids[2]));
    const int count = PROBE_TRY(getgroups(64, groups));
    do {
        probe_ready();
        now = capabilities();
        PROBE_SABOTAGE("capabilities", now[0].effective ^= 1);
        probe_equal_bytes("capabilities", before, now, sizeof before);
        probe_equal("securebits", securebits, prctl(PR_GET_SECUREBITS));
        PROBE_TRY(getresuid(&found_uids[0], &found_uids[1], &found_uids[2]));
        probe_equal_bytes("user ids", uids, found_uids, sizeof uids);
        probe_equal("number of groups", count, getgroups(64, found_groups));
        probe_equal_bytes("groups", groups, found_groups, (size_t)count * sizeof groups[0]);
    } while (probe_more());
    return probe_pass();
}
