// SPDX-License-Identifier: Apache-2.0
//
// What an S3 server answers, and is sent, in XML: by pugixml. Texts that are no XML, or lack
// something, are errors.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::store {

struct Refusal { // <Error>
    std::string code = {}, message = {};
};
// Both are "": the text is something else.
Refusal refusal_in(std::string_view text);

struct StoredObject {
    std::string key = {};
    uint64_t bytes = 0;
    std::string modified = {}; // "2026-11-30T16:58:46.000Z"
};
struct ObjectList {
    std::vector<StoredObject> objects = {};
    std::string next = {}; // "": this is the end
};
Result<ObjectList> object_list(std::string_view text);

struct PendingUpload {
    std::string key = {}, id = {};
};
struct UploadList {
    std::vector<PendingUpload> uploads = {};
    std::string next_key = {}, next_id = {}; // "": this is the end
};
Result<UploadList> upload_list(std::string_view text);

struct StoredPart {
    unsigned number = 0;
    uint64_t bytes = 0;
    std::string etag = {}; // without quotes
};
inline constexpr size_t most_parts = 10'000; // of one upload

struct PartList {
    std::vector<StoredPart> parts = {};
    std::string next = {}; // "": this is the end
};
Result<PartList> part_list(std::string_view text);

Result<std::string> upload_id(std::string_view text);
// What completes an upload of these parts.
std::string completion(const std::vector<StoredPart> &parts);
// Whether the server says that it has put the parts together.
bool is_completed(std::string_view text);

std::string without_quotes(std::string text);

} // namespace cryo::store
