// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the module: the device, opened anew for each test.
//
//     TEST_F(DeviceTest, Something) { EXPECT_EQ(0, call(CRYO_IOC_FEATURES, &features)); }
#pragma once

#include <cerrno>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "device/device.hpp"

namespace cryo::test {

inline const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));

class DeviceTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        auto opened = Device::open();
        ASSERT_TRUE(opened) << opened.error().text();
        device_ = std::make_unique<Device>(*std::move(opened));
    }

    const Device &device() const { return *device_; }

    // 0 or -errno
    int call(unsigned long command, void *argument) const
    {
        return ioctl(device_->fd(), command, argument) == 0 ? 0 : -errno;
    }

  private:
    std::unique_ptr<Device> device_;
};

} // namespace cryo::test
