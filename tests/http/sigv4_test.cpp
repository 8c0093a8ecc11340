// Signatures, beside what AWS publishes, and of keys with every byte.
#include "pipeline/http/sigv4.h"

#include <gmock/gmock.h>

#include "pipeline/http/credentials.h"
#include "pipeline/http/list_xml.h"
#include "tests/support/errors.h"

namespace penstock::http {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t k2015 = 1440938160;  // 20150830T123600Z
constexpr std::int64_t k2013 = 1369353600;  // 20130524T000000Z

std::string signature_of(const SigningScope& scope, const std::string& key,
                         const std::string& secret, const SignedRequest& request) {
  const std::string text = authorization(remote_module(), {key, secret, {}}, scope, request);
  return text.substr(text.rfind('=') + 1);
}

/// The test suite of Signature Version 4: AKIDEXAMPLE, us-east-1, "service".
TEST(SigV4, IsThatOfThePublishedSuite) {
  struct Case {
    const char* name;
    const char* path;
    const char* query;
    std::vector<std::pair<std::string, std::string>> more;
    const char* signature;
  };
  const Case table[] = {
      {"get-vanilla",
       "/",
       "",
       {},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case",
       "/",
       "Param2=value2&Param1=value1",
       {},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-empty-query-key",
       "/",
       "Param1=value1",
       {},
       "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
      {"get-unreserved",
       "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
       "",
       {},
       "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
      {"get-utf8",
       "/%E1%88%B4",
       "",
       {},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
  };
  for (const Case& row : table) {
    SignedRequest request{"GET", row.path, row.query, row.more, kEmptySha256};
    request.headers.emplace_back("Host", "example.amazonaws.com");
    request.headers.emplace_back("X-Amz-Date", "20150830T123600Z");
    EXPECT_EQ(signature_of({"service", "us-east-1", k2015}, "AKIDEXAMPLE",
                           "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", request),
              row.signature)
        << row.name;
  }
}

/// The examples of S3's own documentation.
TEST(SigV4, IsThatOfTheExamplesOfS3) {
  const auto signature = [](const char* path, const char* query, bool range) {
    SignedRequest request{"GET", path, query, {}, kEmptySha256};
    request.headers = {{"Host", "examplebucket.s3.amazonaws.com"},
                       {"x-amz-content-sha256", kEmptySha256},
                       {"x-amz-date", "20130524T000000Z"}};
    if (range) request.headers.emplace_back("Range", "bytes=0-9");
    return signature_of({"s3", "us-east-1", k2013}, "AKIAIOSFODNN7EXAMPLE",
                        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", request);
  };
  EXPECT_EQ(signature("/test.txt", "", true),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(signature("/", "lifecycle", false),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(signature("/", "max-keys=2&prefix=J", false),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SigV4, CanonicalRequests) {
  const SignedRequest request{
      "GET", "/a%20b", "b=2&a=%20&a=1&c", {{"X-B", "  a   b  "}, {"host", "h"}}, "hash"};
  EXPECT_EQ(canonical_request(request),
            "GET\n/a%20b\na=%20&a=1&b=2&c=\nhost:h\nx-b:a b\n\nhost;x-b\nhash");
}

TEST(ListPage, IsRead) {
  const ListPage page = parse_list_page(
      "<?xml version=\"1.0\"?>\n<!-- x --><ListBucketResult xmlns=\"y\"><Name>b</Name>"
      "<Contents><Key>a&amp;&#228;&#x20AC;&lt;.tar</Key><Size>12</Size>"
      "<ETag>&quot;e&quot;</ETag><Owner><ID>1</ID></Owner></Contents>"
      "<Contents><Key>b</Key><Size>0</Size></Contents><CommonPrefixes/>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t&gt;</NextContinuationToken>"
      "</ListBucketResult>");
  ASSERT_EQ(page.objects.size(), 2);
  EXPECT_EQ(page.objects[0].key, "a&ä€<.tar");
  EXPECT_EQ(page.objects[0].size, 12);
  EXPECT_EQ(page.objects[0].etag, "\"e\"");
  EXPECT_EQ(page.objects[1].key, "b");
  EXPECT_TRUE(page.truncated);
  EXPECT_EQ(page.next_token, "t>");
}

TEST(ListPage, RefusesWhatIsNone) {
  const std::string list = "<ListBucketResult>";
  const std::string end = "</ListBucketResult>";
  std::string deep = list;
  for (int i = 0; i < 20; ++i) deep += "<a>";
  for (const std::string& text :
       {std::string(), std::string("<html></html>"), list, list + "<a></b>" + end,
        "<!DOCTYPE x [<!ENTITY a \"b\">]>" + list + end, list + "<Contents></Contents>" + end,
        list + "<Contents><Key>a</Key><Size>x</Size></Contents>" + end,
        list + "<Contents><Key>&bomb;</Key></Contents>" + end,
        list + "<Contents><Key>&#0;</Key></Contents>" + end,
        list + "<Contents><Key>&#xD800;</Key></Contents>" + end,
        list + "<Contents><Key>&amp</Key></Contents>" + end,
        list + "<Contents><Key>" + std::string(9000, 'x') + "</Key></Contents>" + end,
        list + "<IsTruncated>true</IsTruncated>" + end, list + end + list + end, deep})
    test::expect_error(ErrorCode::data_loss, "the list of objects is malformed XML",
                       [&] { parse_list_page(text); });
}

TEST(Credentials, OfProfileFiles) {
  const ProfileFile file = parse_profile_file(
      "# x\n[default]\naws_access_key_id = AK \r\naws_secret_access_key=a=b\n[profile two]\n"
      "region = eu-central-1\ns3 =\n  addressing_style = path\nnonsense\n");
  EXPECT_EQ(file.at("default").at("aws_access_key_id"), "AK");
  EXPECT_EQ(file.at("default").at("aws_secret_access_key"), "a=b");
  EXPECT_EQ(file.at("two").at("region"), "eu-central-1");
  EXPECT_FALSE(file.at("two").contains("addressing_style"));
}

class CredentialSources : public testing::Test {
 protected:
  CredentialSources() {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
          "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT"})
      ::unsetenv(name);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  }
  AskService ask() {
    return [this](const HttpRequest& request) {
      asked_.push_back(request.method + ' ' + request.url);
      for (const std::string& header : request.headers) headers_ += header + '\n';
      if (request.url.ends_with("/token")) return std::string("tok");
      if (request.url.ends_with("/security-credentials/")) return std::string("role\n");
      return std::string(R"({"Code":"Success","AccessKeyId":"A)") + std::to_string(asked_.size()) +
             R"(","SecretAccessKey":"S","Token":"T","Expiration":"2015-08-30T13:36:00Z"})";
    };
  }

  std::vector<std::string> asked_;
  std::string headers_;
};

TEST_F(CredentialSources, EnvironmentBeforeOthers) {
  ::setenv("AWS_ACCESS_KEY_ID", "A", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
  CredentialChain chain(false, ask());
  EXPECT_EQ(chain.get(0).access_key, "A");
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(CredentialChain(true, ask()).get(0).anonymous());
}

TEST_F(CredentialSources, ServiceOfAContainer) {
  ::setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/creds", 1);
  ::setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "secret", 1);
  CredentialChain chain(false, ask());
  EXPECT_EQ(chain.get(k2015).access_key, "A1");
  EXPECT_EQ(chain.get(k2015).session_token, "T");
  EXPECT_EQ(asked_.size(), 1);
  EXPECT_EQ(chain.get(k2015 + 3600 - 299).access_key, "A2");
  chain.refused(std::chrono::steady_clock::now());
  EXPECT_EQ(chain.get(k2015).access_key, "A3");
  EXPECT_THAT(headers_, HasSubstr("Authorization: secret"));
}

TEST_F(CredentialSources, ServiceOfAnInstance) {
  CredentialChain chain(false, ask());
  EXPECT_EQ(chain.get(k2015).access_key, "A3");
  EXPECT_THAT(asked_,
              ElementsAre("PUT http://169.254.169.254/latest/api/token",
                          "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/",
                          "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/"
                          "role"));
  EXPECT_THAT(headers_, HasSubstr("X-aws-ec2-metadata-token: tok"));
}

TEST_F(CredentialSources, NoCredentials) {
  ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  CredentialChain chain(false, ask());
  test::expect_error(ErrorCode::unavailable, "there are no credentials for S3",
                     [&] { chain.get(0); });
  ::setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/creds", 1);
  CredentialChain bad(false, [](const HttpRequest&) { return std::string("{\"secret\":1}"); });
  test::expect_error(ErrorCode::unavailable, "returned no credentials", [&] { bad.get(0); });
}

}  // namespace
}  // namespace penstock::http
