// SPDX-License-Identifier: Apache-2.0
//
// Cryo's own two backends. `kmod` is `user` with a descriptor of /dev/cryo: the module moves the
// pages, makes the memory and gives the ids. Both write and read the same images.
#pragma once

#include "backend/backend.hpp"
#include "device/device.hpp"

namespace cryo::backend {

std::unique_ptr<Backend> make_user();
std::unique_ptr<Backend> make_kmod(Device device);

// The module, if it is there and can do what the backend needs; else why it is not used.
Result<Device> find_module(Purpose purpose);

} // namespace cryo::backend
