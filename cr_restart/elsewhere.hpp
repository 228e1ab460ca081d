// SPDX-License-Identifier: Apache-2.0
//
// Images that are elsewhere: at a server of images, or in an object store. An image is read in
// random order, so it is copied here first, for the user alone.
//
//     Result<Fd> image = fetch_from_server(options);
//     Result<PrivateDirectory> brought = bring_from_store(options);
#pragma once

#include "backend/private_directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "options.hpp"

// The image at options.url, as a file of ours that has no name. options.image names it then.
cryo::Result<cryo::Fd> fetch_from_server(Options &options);

// The image at options.stored, in a directory that is removed however this command ends.
// options.image is the file in it then.
cryo::Result<cryo::backend::PrivateDirectory> bring_from_store(Options &options);
