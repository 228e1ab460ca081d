// SPDX-License-Identifier: Apache-2.0
#include "store/answers.hpp"

#include <cerrno>
#include <charconv>
#include <pugixml.hpp>
#include <sstream>

namespace cryo::store {

namespace {

// Names are compared without a prefix of a namespace, which some servers give.
std::string_view name_of(const pugi::xml_node &node)
{
    const std::string_view name = node.name();
    const size_t colon = name.find(':');
    return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

pugi::xml_node child(const pugi::xml_node &node, std::string_view name)
{
    return node.find_child([&](const pugi::xml_node &one) { return name_of(one) == name; });
}

std::string text_of(const pugi::xml_node &node, std::string_view name)
{
    return child(node, name).text().get();
}

class Document
{
  public:
    Document(std::string_view text, std::string_view root)
    {
        if (document_.load_buffer(text.data(), text.size()) &&
            name_of(document_.document_element()) == root)
            root_ = document_.document_element();
    }

    explicit operator bool() const { return !root_.empty(); }
    const pugi::xml_node &root() const { return root_; }
    std::string text(std::string_view name) const { return text_of(root_, name); }
    bool goes_on() const { return text("IsTruncated") == "true"; }

  private:
    pugi::xml_document document_;
    pugi::xml_node root_;
};

template <class T>
bool read_number(const std::string &text, T &number)
{
    const char *end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && at == end;
}

Error odd(std::string_view what)
{
    return {EPROTO, "the object store's answer is no " + std::string(what)};
}

} // namespace

std::string without_quotes(std::string text)
{
    if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
        return text.substr(1, text.size() - 2);
    return text;
}

Refusal refusal_in(std::string_view text)
{
    const Document document(text, "Error");
    return document ? Refusal{document.text("Code"), document.text("Message")} : Refusal{};
}

Result<ObjectList> object_list(std::string_view text)
{
    const Document document(text, "ListBucketResult");
    if (!document)
        return odd("list of objects");
    ObjectList list;
    for (const pugi::xml_node &node : document.root()) {
        if (name_of(node) != "Contents")
            continue;
        StoredObject object{.key = text_of(node, "Key"), .modified = text_of(node, "LastModified")};
        if (object.key.empty() || !read_number(text_of(node, "Size"), object.bytes))
            return odd("list of objects");
        list.objects.push_back(std::move(object));
    }
    if (document.goes_on() && (list.next = document.text("NextContinuationToken")).empty())
        return odd("list of objects that can be continued");
    return list;
}

Result<UploadList> upload_list(std::string_view text)
{
    const Document document(text, "ListMultipartUploadsResult");
    if (!document)
        return odd("list of uploads");
    UploadList list;
    for (const pugi::xml_node &node : document.root()) {
        if (name_of(node) != "Upload")
            continue;
        PendingUpload upload{text_of(node, "Key"), text_of(node, "UploadId")};
        if (upload.key.empty() || upload.id.empty())
            return odd("list of uploads");
        list.uploads.push_back(std::move(upload));
    }
    if (document.goes_on()) {
        list.next_key = document.text("NextKeyMarker");
        list.next_id = document.text("NextUploadIdMarker");
        if (list.next_key.empty())
            return odd("list of uploads that can be continued");
    }
    return list;
}

Result<PartList> part_list(std::string_view text)
{
    const Document document(text, "ListPartsResult");
    if (!document)
        return odd("list of parts");
    PartList list;
    for (const pugi::xml_node &node : document.root()) {
        if (name_of(node) != "Part")
            continue;
        StoredPart part{.etag = without_quotes(text_of(node, "ETag"))};
        if (part.etag.empty() || !read_number(text_of(node, "PartNumber"), part.number) ||
            !read_number(text_of(node, "Size"), part.bytes))
            return odd("list of parts");
        list.parts.push_back(std::move(part));
    }
    if (document.goes_on() && (list.next = document.text("NextPartNumberMarker")).empty())
        return odd("list of parts that can be continued");
    return list;
}

Result<std::string> upload_id(std::string_view text)
{
    const Document document(text, "InitiateMultipartUploadResult");
    std::string id = document ? document.text("UploadId") : std::string();
    if (id.empty())
        return odd("name of an upload");
    return id;
}

std::string completion(const std::vector<StoredPart> &parts)
{
    pugi::xml_document document;
    pugi::xml_node root = document.append_child("CompleteMultipartUpload");
    for (const StoredPart &part : parts) {
        pugi::xml_node node = root.append_child("Part");
        node.append_child("PartNumber").text().set(part.number);
        node.append_child("ETag").text().set(('"' + part.etag + '"').c_str());
    }
    std::ostringstream text;
    document.save(text, "", pugi::format_raw | pugi::format_no_declaration);
    return text.str();
}

bool is_completed(std::string_view text)
{
    return static_cast<bool>(Document(text, "CompleteMultipartUploadResult"));
}

} // namespace cryo::store
