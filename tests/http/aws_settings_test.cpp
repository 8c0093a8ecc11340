// Settings, credentials and answers of S3 and of services like it, as boto3 takes them.
#include "pipeline/http/aws_settings.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <penstock/error.h>

#include "pipeline/http/answer.h"
#include "pipeline/http/credentials.h"
#include "pipeline/http/s3_endpoint.h"
#include "pipeline/http/web_identity.h"
#include "tests/support/aws_environment.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock::http {
namespace {

using test::expect_error;

constexpr std::int64_t kNoon = 1'440'938'160;  // 2015-08-30T12:36:00Z

class AwsSettings : public testing::Test, protected test::AwsEnvironment {
 protected:
  /// Returns the keys that are found; `ask` answers for services.
  static std::string access_key(AskService ask = {}) {
    CredentialChain chain(false, std::move(ask));
    return chain.get(kNoon).access_key;
  }
};

TEST_F(AwsSettings, FilesAsPythonReadsThem) {
  struct Row {
    const char* text;
    const char* section;
    const char* key;
    const char* value;
  };
  const Row rows[] = {
      {"[default]\nregion = a", "default", "region", "a"},
      {"[default]\r\nregion=a\r\n", "default", "region", "a"},
      {"\xef\xbb\xbf[default]\nregion = a", "default", "region", "a"},
      {"[default]\n  region = a\n  output = json", "default", "output", "json"},
      {"[default]\n\tregion = a\n\toutput = json", "default", "region", "a"},
      {"  [default]\n  region = a", "default", "region", "a"},
      {"[default]\nAWS_Access_Key_ID = A", "default", "aws_access_key_id", "A"},
      {"[default]\nregion: a", "default", "region", "a"},
      {"[default]\nendpoint_url = http://h:9000/x", "default", "endpoint_url", "http://h:9000/x"},
      {"[default]\n# region = b\nregion = a\n; c = d", "default", "region", "a"},
      {"[default]\n\n\nregion = a", "default", "region", "a"},
      {"[profile x]\nregion = a", "x", "region", "a"},
      {"[ profile x ]\nregion = a", "x", "region", "a"},
      {"[profile\tx]\nregion = a", "x", "region", "a"},
      {"[profile \"my team\"]\nregion = a", "my team", "region", "a"},
      {"[profile 'my team']\nregion = a", "my team", "region", "a"},
      {"[my team]\nregion = a", "my team", "region", "a"},
      {"[services local]\ns3 =\n  endpoint_url = u\n", "services local", "s3.endpoint_url", "u"},
      {"[x]\ns3 =\n  a = 1\n  B=2\nregion = c", "x", "s3.b", "2"},
      {"[x]\ns3 =\n  a = 1\nregion = c", "x", "region", "c"},
      {"[x]\n  s3 =\n    a = 1\n  region = c", "x", "region", "c"},
      {"[x]\n  s3 =\n    a = 1\n  region = c", "x", "s3.a", "1"},
      {"[x]\ns3 =\n\n  # note\n  a = 1", "x", "s3.a", "1"},
      {"[x]\na = 1\n[x]\nb = 2", "x", "a", "1"},
      {"[x]\na = b = c", "x", "a", "b = c"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    ProfileFile file = parse_profile_file(row.text);
    ASSERT_TRUE(file.contains(row.section));
    EXPECT_EQ(file[row.section][row.key], row.value);
  }
  for (const char* text : {"", "x", "[", "]", "[]", "[\"x", "=", "\n\n", "a = b", "[x]\n=\n:"})
    parse_profile_file(text);
}

TEST_F(AwsSettings, ProfilesThatDoNotExist) {
  config("[default]\nregion = a\n[profile x]\nregion = b\n");
  credentials("[y]\naws_access_key_id = Y\naws_secret_access_key = S\n");
  EXPECT_EQ(usual_region(), "a");
  set("AWS_PROFILE", "x");
  EXPECT_EQ(usual_region(), "b");
  set("AWS_PROFILE", "y");
  EXPECT_EQ(usual_region(), "us-east-1");
  EXPECT_EQ(access_key(), "Y");
  for (const char* name : {"X", "profile x", "z"}) {
    set("AWS_PROFILE", name);
    expect_error(ErrorCode::invalid_argument, std::string("no profile ") + name,
                 [] { usual_region(); });
    expect_error(ErrorCode::unavailable, std::string("no profile ") + name, [] { access_key(); });
  }
  ::unsetenv("AWS_PROFILE");
  set("AWS_DEFAULT_PROFILE", "x");
  EXPECT_EQ(usual_region(), "b");
  set("AWS_PROFILE", "y");
  expect_error(ErrorCode::invalid_argument, "AWS_DEFAULT_PROFILE is x", [] { usual_region(); });
}

TEST_F(AwsSettings, ProfilesThatOnlyACommandCanUse) {
  for (const char* key : {"sso_session", "sso_start_url", "login_session"}) {
    config("[default]\n" + std::string(key) + " = x\n");
    expect_error(ErrorCode::unavailable, "export-credentials --profile default",
                 [] { access_key(); });
  }
  config("[profile r]\nrole_arn = arn\nsource_profile = base\n[profile base]\n");
  credentials("[r]\naws_access_key_id = NOT_THE_ROLE\naws_secret_access_key = S\n");
  set("AWS_PROFILE", "r");
  expect_error(ErrorCode::unavailable, "role_arn with source_profile of profile r",
               [] { access_key(); });
  // Keys that another program wrote for the profile, and a command, are taken.
  config("[profile r]\nsso_session = x\n");
  credentials("[r]\naws_access_key_id = A\naws_secret_access_key = S\n");
  EXPECT_EQ(access_key(), "A");
  credentials("");
  config(
      "[profile r]\nsso_session = x\n"
      R"(credential_process = echo '{"AccessKeyId":"P","SecretAccessKey":"S"}')");
  EXPECT_EQ(access_key(), "P");
}

TEST_F(AwsSettings, FormsOfExpiration) {
  struct Row {
    const char* text;
    std::int64_t expires;
  };
  const Row rows[] = {{"2015-08-30T13:36:00Z", kNoon + 3600},
                      {"2015-08-30T13:36:00.123Z", kNoon + 3600},
                      {"2015-08-30T13:36:00", kNoon + 3600},
                      {"2015-08-30 13:36:00+00:00", kNoon + 3600},
                      {"2015-08-30T15:36:00+02:00", kNoon + 3600},
                      {"2015-08-30T15:36:00.5+0200", kNoon + 3600},
                      {"2015-08-30T15:36:00+02", kNoon + 3600},
                      {"2015-08-30T08:06:00-05:30", kNoon + 3600},
                      {"2015-08-30T13:36:00+x", 0},
                      {"tomorrow", 0},
                      {"", 0}};
  for (const Row& row : rows)
    EXPECT_EQ(lent_credentials({"A", "S", ""}, row.text).expires, row.expires) << row.text;
}

TEST_F(AwsSettings, MetadataServiceWithoutTokens) {
  ::unsetenv("AWS_EC2_METADATA_DISABLED");
  const auto ask = [](const HttpRequest& request) -> std::string {
    if (request.method == "PUT") throw Error(ErrorCode::unavailable, "HTTP 404 Not Found");
    EXPECT_TRUE(request.headers.empty());
    if (request.url.ends_with('/')) return "role";
    return R"({"AccessKeyId":"A","SecretAccessKey":"S","Token":"T",)"
           R"("Expiration":"2015-08-30T13:36:00Z"})";
  };
  EXPECT_EQ(access_key(ask), "A");
  set("AWS_EC2_METADATA_V1_DISABLED", "true");
  expect_error(ErrorCode::unavailable, "HTTP 404", [&] { access_key(ask); });
}

TEST_F(AwsSettings, FilesOfCertificates) {
  EXPECT_EQ(usual_ca_file(), "");
  config("[default]\nca_bundle = /p.pem\n");
  EXPECT_EQ(usual_ca_file(), "/p.pem");
  set("AWS_CA_BUNDLE", "/v.pem");
  EXPECT_EQ(usual_ca_file(), "/v.pem");
}

// A hundred requests that were under way with the old keys are refused after new ones came.
TEST_F(AwsSettings, RefusalsOfManyRequests) {
  int asked = 0;
  CredentialChain chain(
      false,
      [&] {
        ++asked;
        return LentCredentials{{"A" + std::to_string(asked), "S", ""}, kNoon + 7200};
      },
      "none");
  EXPECT_EQ(chain.get(kNoon).access_key, "A1");
  const auto sent = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    chain.refused(sent);
    EXPECT_EQ(chain.get(kNoon).access_key, "A2");
  }
  chain.refused(std::chrono::steady_clock::now());
  EXPECT_EQ(chain.get(kNoon).access_key, "A3");
}

TEST(S3Answers, CredentialsThatAreRefused) {
  const auto refuses = [](int status, const std::string& code) {
    AnswerHead head;
    head.status = status;
    return refuses_credentials(head, "<Error><Code>" + code + "</Code></Error>");
  };
  EXPECT_TRUE(refuses(401, ""));
  EXPECT_TRUE(refuses(403, "AccessDenied"));
  for (const char* code :
       {"ExpiredToken", "TokenRefreshRequired", "InvalidToken", "RequestExpired"})
    EXPECT_TRUE(refuses(400, code)) << code;
  for (const char* code : {"BadDigest", "InvalidArgument", "Expired", ""})
    EXPECT_FALSE(refuses(400, code)) << code;
  EXPECT_FALSE(refuses(404, "ExpiredToken"));
}

TEST(S3Answers, EncodingsOfContents) {
  struct Row {
    const char* encoding;
    bool gz;
    bool good;
  };
  const Row rows[] = {{"", false, true},
                      {"aws-chunked", false, true},
                      {"identity", false, true},
                      {"binary", false, true},
                      {"UTF-8", false, true},
                      {"aws-chunked, utf-8", false, true},
                      {"aws-chunked,", false, true},
                      {"gzip", false, false},
                      {"gzip", true, true},
                      {"aws-chunked,gzip", true, true},
                      {"br", true, false},
                      {"zstd", false, false}};
  for (const Row& row : rows) {
    AnswerHead head;
    head.status = 206;
    head.etag = "\"e\"";
    head.encoding = row.encoding;
    head.range = AnswerHead::Range{0, 0, 10, false};
    const Verdict part = judge(head, {0, 0, 10, 0, row.gz}).verdict;
    EXPECT_EQ(part == Verdict::good, row.good) << row.encoding;
    head.status = 200;
    EXPECT_EQ(judge_whole(head, row.gz).verdict == Verdict::good, row.good) << row.encoding;
  }
  for (const char* name : {"s3://b/x.gz", "x.TGZ", "http://h/x.gz?a=b"})
    EXPECT_TRUE(is_gz_name(name)) << name;
  for (const char* name : {"x.tar", ".gz", "gz", "http://h/x?y=.gz"})
    EXPECT_FALSE(is_gz_name(name)) << name;
}

TEST(S3Answers, EmptyObjects) {
  AnswerHead head;
  head.status = 416;
  EXPECT_EQ(judge(head, {0, 0, {}, 0}).verdict, Verdict::empty);
  EXPECT_EQ(judge(head, {0, 0, 0, 0}).verdict, Verdict::empty);
  EXPECT_NE(judge(head, {0, 0, 10, 0}).verdict, Verdict::empty);
  EXPECT_NE(judge(head, {5, 9, {}, 0}).verdict, Verdict::empty);
  head.range = AnswerHead::Range{0, 0, 10, true};
  EXPECT_NE(judge(head, {0, 0, {}, 0}).verdict, Verdict::empty);
}

TEST(S3Addressing, Styles) {
  const auto url = [](const std::string& endpoint, const std::string& style,
                      const std::string& bucket) {
    return S3Endpoint(endpoint, "us-east-1", style).url_of(bucket, "k").whole();
  };
  EXPECT_EQ(url("", "", "b"), "https://b.s3.us-east-1.amazonaws.com/k");
  EXPECT_EQ(url("", "path", "b"), "https://s3.us-east-1.amazonaws.com/b/k");
  EXPECT_EQ(url("https://oss.example.com", "", "b"), "https://oss.example.com/b/k");
  EXPECT_EQ(url("https://oss.example.com", "auto", "b"), "https://oss.example.com/b/k");
  EXPECT_EQ(url("https://oss.example.com:8443/x", "virtual", "b"),
            "https://b.oss.example.com:8443/x/k");
  EXPECT_EQ(url("https://oss.example.com", "virtual", "a.b"), "https://oss.example.com/a.b/k");
  EXPECT_EQ(url("http://oss.example.com", "virtual", "a.b"), "http://a.b.oss.example.com/k");
  for (const char* address : {"http://127.0.0.1:9000", "http://[::1]:9000"}) {
    EXPECT_EQ(url(address, "path", "b"), address + std::string("/b/k"));
    expect_error(ErrorCode::invalid_argument, "must be path",
                 [&] { url(address, "virtual", "b"); });
  }
  expect_error(ErrorCode::invalid_argument, "auto, virtual or path", [&] { url("", "host", "b"); });
  S3Endpoint own("https://oss.example.com", "us-east-1", "virtual");
  const Url of_bucket = own.url_of("b", "k");
  EXPECT_TRUE(own.moved(of_bucket, "eu-west-1"));
  EXPECT_EQ(own.region_of(of_bucket), "eu-west-1");
}

}  // namespace
}  // namespace penstock::http
