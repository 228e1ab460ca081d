// SPDX-License-Identifier: Apache-2.0
#include "capture/frozen.hpp"

namespace cryo::capture {

Result<std::unique_ptr<Frozen>> Served::open(PageSource source)
{
    Result<PageMap> map = PageMap::open(Proc(source.pid()));
    if (!map)
        return map.error();
    return std::unique_ptr<Frozen>(new Served(std::move(source), std::move(*map)));
}

} // namespace cryo::capture
