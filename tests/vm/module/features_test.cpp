// SPDX-License-Identifier: Apache-2.0
//
// FEATURES, opening the device, and Device's errors if it cannot be opened.
#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>

#include "device_test.hpp"

namespace cryo::test {
namespace {

class Features : public DeviceTest
{};

TEST_F(Features, SayWhatTheModuleIs)
{
    const cryo_features &features = device().features();
    EXPECT_EQ(sizeof(cryo_features), features.size);
    EXPECT_EQ(static_cast<uint32_t>(CRYO_ABI_VERSION), features.abi_version);
    EXPECT_EQ(page, features.page_size);
    EXPECT_TRUE(device().has(CRYO_FEATURE_SCAN | CRYO_FEATURE_EVENTS | CRYO_FEATURE_THREADS |
                             CRYO_FEATURE_FILES));
    EXPECT_GE(features.scan_max_runs, 1024U);
    EXPECT_GE(features.event_rate, 1U);
}

TEST_F(Features, OutputsDoNotDependOnWhatStoodThere)
{
    cryo_features again = {};
    again.size = sizeof(again);
    again.abi_version = 77;
    again.features = ~uint64_t{0};
    again.scan_max_runs = 77;
    ASSERT_EQ(0, call(CRYO_IOC_FEATURES, &again));
    EXPECT_EQ(0, memcmp(&again, &device().features(), sizeof(again)));
}

TEST_F(Features, EveryBodyMayOpenTheDeviceForReading)
{
    struct stat st = {};
    ASSERT_EQ(0, stat(Device::path, &st));
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    EXPECT_EQ(0664U, st.st_mode & 07777);
    EXPECT_EQ(0U, st.st_uid);
}

TEST_F(Features, DescriptorsAreClosedOnExec)
{
    EXPECT_EQ(FD_CLOEXEC, fcntl(device().fd(), F_GETFD));
}

} // namespace
} // namespace cryo::test
