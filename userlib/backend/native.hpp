// SPDX-License-Identifier: Apache-2.0
//
// Cryo's own two backends. `kmod` is `user` with a descriptor of /dev/cryo: the module moves pages,
// creates memory and assigns ids. Both write and read the same images.
#pragma once

#include "backend/backend.hpp"
#include "device/device.hpp"

namespace cryo::backend {

std::unique_ptr<Backend> make_user();
std::unique_ptr<Backend> make_kmod(Device device);

// The module, if it is loaded and can do what the backend needs; otherwise the reason.
Result<Device> find_module(Purpose purpose);

} // namespace cryo::backend
