// SPDX-License-Identifier: Apache-2.0
#include "store/answers.hpp"

#include "store/client.hpp"

#include <gtest/gtest.h>

namespace cryo::store {

namespace {

constexpr const char *objects = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name>
<Contents><Key>a &amp; b</Key><LastModified>2026-11-30T16:58:46.000Z</LastModified><Size>5</Size></Contents>
<Contents><Key>c</Key><Size>18446744073709551615</Size></Contents>
<IsTruncated>true</IsTruncated><NextContinuationToken>t+/=</NextContinuationToken></ListBucketResult>)";

TEST(Answers, Objects)
{
    const Result<ObjectList> list = object_list(objects);
    ASSERT_TRUE(list);
    ASSERT_EQ(2u, list->objects.size());
    EXPECT_EQ("a & b", list->objects[0].key);
    EXPECT_EQ(5u, list->objects[0].bytes);
    EXPECT_EQ(UINT64_MAX, list->objects[1].bytes);
    EXPECT_EQ("t+/=", list->next);
}

TEST(Answers, Uploads)
{
    const Result<UploadList> list = upload_list(
        "<s:ListMultipartUploadsResult "
        "xmlns:s='x'><s:Upload><s:Key>k</s:Key><s:UploadId>i</s:UploadId>"
        "</s:Upload><s:IsTruncated>false</s:IsTruncated></s:ListMultipartUploadsResult>");
    ASSERT_TRUE(list);
    ASSERT_EQ(1u, list->uploads.size());
    EXPECT_EQ("k", list->uploads[0].key);
    EXPECT_EQ("i", list->uploads[0].id);
    EXPECT_EQ("", list->next_key);
}

TEST(Answers, Parts)
{
    const Result<PartList> list = part_list(
        "<ListPartsResult><Part><PartNumber>2</PartNumber><ETag>\"abc\"</ETag><Size>7</Size></Part>"
        "<IsTruncated>true</IsTruncated><NextPartNumberMarker>2</NextPartNumberMarker></"
        "ListPartsResult>");
    ASSERT_TRUE(list);
    ASSERT_EQ(1u, list->parts.size());
    EXPECT_EQ(2u, list->parts[0].number);
    EXPECT_EQ(7u, list->parts[0].bytes);
    EXPECT_EQ("abc", list->parts[0].etag);
    EXPECT_EQ("2", list->next);
    EXPECT_EQ("<CompleteMultipartUpload><Part><PartNumber>2</PartNumber><ETag>\"abc\"</ETag>"
              "</Part></CompleteMultipartUpload>",
              completion(list->parts).substr(0, completion(list->parts).find('\n')));
}

// What a server, or who speaks in its place, may say: an error each time, and not a list that lacks
// something.
TEST(Answers, Odd)
{
    const std::string whole = objects;
    for (
        const std::string &text : std::vector<std::string>{
            "", "no XML", "<ListBucketResult>", "<Error><Code>NoSuchKey</Code></Error>",
            "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>1x</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            whole.substr(0, whole.size() / 2)})
        EXPECT_FALSE(object_list(text)) << text;
    EXPECT_FALSE(upload_list("<ListMultipartUploadsResult><Upload><Key>k</Key></Upload>"
                             "</ListMultipartUploadsResult>"));
    EXPECT_FALSE(part_list("<ListPartsResult><Part><PartNumber>1</PartNumber><Size>7</Size></Part>"
                           "</ListPartsResult>"));
    EXPECT_FALSE(upload_id("<InitiateMultipartUploadResult/>"));
    EXPECT_FALSE(is_completed("<Error><Code>InternalError</Code></Error>"));
    EXPECT_TRUE(is_completed("<CompleteMultipartUploadResult/>"));
}

HttpReply refusal(long status, const std::string &code, const std::string &message = "")
{
    return {.status = status,
            .body = "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>"};
}

TEST(Answers, Errors)
{
    const Location at{"abc", "x"};
    EXPECT_EQ(EACCES, error_of(refusal(403, "AccessDenied"), at).code());
    EXPECT_EQ(ENOENT, error_of(refusal(404, "NoSuchBucket"), at).code());
    EXPECT_EQ("s3://abc/x: there is no such bucket",
              error_of(refusal(404, "NoSuchBucket"), at).text());
    EXPECT_EQ("s3://abc/x: the object store answers: Odd: because",
              error_of(refusal(400, "Odd", "because"), at).text());
    EXPECT_EQ(EACCES, error_of({.status = 403}, at).code()); // of HEAD, which has no body
    EXPECT_EQ(ENOSPC, error_of({.status = 507}, at).code());
    EXPECT_EQ(EBADMSG, error_of(refusal(400, "BadDigest"), at).code());
}

TEST(Answers, WhatPasses)
{
    EXPECT_TRUE(is_passing(refusal(503, "SlowDown")));
    EXPECT_TRUE(is_passing({.status = 500}));
    EXPECT_TRUE(is_passing(refusal(400, "RequestTimeout")));
    EXPECT_TRUE(is_passing(refusal(200, "InternalError"))); // of an upload that is completed
    EXPECT_FALSE(is_passing(refusal(403, "AccessDenied")));
    EXPECT_FALSE(is_passing(refusal(400, "BadDigest")));
    EXPECT_FALSE(is_passing({.status = 404}));
}

} // namespace

} // namespace cryo::store
