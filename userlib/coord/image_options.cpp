// SPDX-License-Identifier: Apache-2.0
#include "coord/image_options.hpp"

namespace cryo::coord {

namespace {

// `Options` may be const.
template <class Options>
auto &flag_in(Options &options, const ImageFlag &flag)
{
    return flag.own != nullptr ? options.*flag.own : options.files.*flag.of_files;
}

} // namespace

ImageOptions image_options(const nlohmann::json &from)
{
    ImageOptions options;
    options.common = from.get<cli::CommonOptions>();
    if (options.common.backend.empty())
        options.common.backend = "auto";
    for (const ImageFlag &flag : image_flags) {
        bool &value = flag_in(options, flag);
        value = from.value(flag.name, value);
    }
    return options;
}

nlohmann::json to_json(const ImageOptions &options)
{
    nlohmann::json said = options.common;
    for (const ImageFlag &flag : image_flags)
        said[flag.name] = flag_in(options, flag);
    return said;
}

} // namespace cryo::coord
