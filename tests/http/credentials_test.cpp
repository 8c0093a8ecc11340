// Where keys come from beyond environment and files: commands and tokens; and where buckets are.
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "pipeline/http/credential_process.h"
#include "pipeline/http/s3_endpoint.h"
#include "pipeline/http/web_identity.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace penstock::http {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kNow = 1'440'938'160;

TEST(CredentialProcess, WordsOfACommand) {
  EXPECT_THAT(command_words("a  b\tc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(command_words(R"(/opt/x "a b" 'c "d' e\ f "\"g\\h\i" "")"),
              ElementsAre("/opt/x", "a b", "c \"d", "e f", "\"g\\h\\i", ""));
  EXPECT_TRUE(command_words("  ").empty());
  test::expect_error(ErrorCode::unavailable, "an unterminated quote",
                     [] { command_words("a 'b"); });
}

TEST(CredentialProcess, Output) {
  const LentCredentials lent = run_credential_process(
      R"(echo '{"Version":1,"AccessKeyId":"A","SecretAccessKey":"S","SessionToken":"T","Expiration":"2015-08-30T13:36:00Z"}')");
  EXPECT_EQ(lent.credentials.access_key, "A");
  EXPECT_EQ(lent.credentials.secret_key, "S");
  EXPECT_EQ(lent.credentials.session_token, "T");
  EXPECT_EQ(lent.expires, kNow + 3600);
  const LentCredentials lasting =
      run_credential_process(R"(echo '{"AccessKeyId":"A","SecretAccessKey":"S"}')");
  EXPECT_GT(lasting.expires, kNow * 100);
}

TEST(CredentialProcess, Failures) {
  const auto error_of = [](const std::string& line) {
    const auto error =
        test::thrown_by([&] { run_credential_process(line, std::chrono::milliseconds(300)); });
    EXPECT_TRUE(error) << line;
    return std::string(error ? error->what() : "");
  };
  EXPECT_THAT(error_of("/nowhere/at/all"), HasSubstr("can't be started"));
  EXPECT_THAT(error_of("sh -c 'echo s3cret; exit 7'"),
              testing::AllOf(HasSubstr("ended with exit code 7"), Not(HasSubstr("s3cret"))));
  EXPECT_THAT(error_of("echo s3cret"), Not(HasSubstr("s3cret")));
  EXPECT_THAT(error_of("sleep 30"), HasSubstr("takes too long"));
  EXPECT_THAT(error_of("sh -c 'exec >&-; sleep 30'"), HasSubstr("takes too long"));
  EXPECT_THAT(error_of("head -c 1000000 /dev/zero"), HasSubstr("prints too much"));
  EXPECT_THAT(error_of(" "), HasSubstr("names no command"));
}

class CredentialSettings : public testing::Test {
 protected:
  CredentialSettings() {
    for (const char* name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_REGION",
          "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS",
          "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"})
      ::unsetenv(name);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  }
  AskService sts(std::string answer) {
    return [this, answer = std::move(answer)](const HttpRequest& request) {
      asked_.push_back(request);
      return answer;
    };
  }

  const test::TempFolder folder_;
  std::vector<HttpRequest> asked_;
};

constexpr const char* kAnswer =
    "<R><AccessKeyId>A</AccessKeyId><SecretAccessKey>S</SecretAccessKey><SessionToken>T"
    "</SessionToken><Expiration>2015-08-30T13:36:00Z</Expiration></R>";

TEST_F(CredentialSettings, CommandOfTheProfile) {
  ::setenv("AWS_CONFIG_FILE",
           folder_
               .write("config",
                      "[default]\ncredential_process = sh -c 'echo x >> " + (folder_ / "runs") +
                          R"(; echo "{\"AccessKeyId\":\"P\",\"SecretAccessKey\":\"S\"}"')" + "\n")
               .c_str(),
           1);
  CredentialChain chain(false, sts(""));
  EXPECT_EQ(chain.get(kNow).access_key, "P");
  EXPECT_EQ(chain.get(kNow + 1'000'000).access_key, "P");
  EXPECT_EQ(test::read_file(folder_ / "runs"), "x\n");
  chain.refused(std::chrono::steady_clock::now());
  EXPECT_EQ(chain.get(kNow).access_key, "P");
  EXPECT_EQ(test::read_file(folder_ / "runs"), "x\nx\n");
}

TEST_F(CredentialSettings, RenewedWebIdentity) {
  ::setenv("AWS_WEB_IDENTITY_TOKEN_FILE", folder_.write("token", "t/1").c_str(), 1);
  ::setenv("AWS_ROLE_ARN", "arn:role", 1);
  ::setenv("AWS_REGION", "eu-west-1", 1);
  CredentialChain chain(false, sts(kAnswer));
  EXPECT_EQ(chain.get(kNow).access_key, "A");
  EXPECT_EQ(chain.get(kNow).session_token, "T");
  ASSERT_EQ(asked_.size(), 1);
  EXPECT_EQ(asked_[0].method, "POST");
  EXPECT_EQ(asked_[0].url, "https://sts.eu-west-1.amazonaws.com/");
  EXPECT_THAT(asked_[0].body, HasSubstr("RoleSessionName=penstock&WebIdentityToken=t%2F1"));
  folder_.write("token", "t/2");
  chain.refused(std::chrono::steady_clock::now());
  chain.get(kNow);
  EXPECT_THAT(asked_.at(1).body, HasSubstr("WebIdentityToken=t%2F2"));
}

TEST_F(CredentialSettings, FailedWebIdentity) {
  const WebIdentity identity{folder_.write("token", "tok3n"), "arn:role", "s"};
  const auto error = test::thrown_by([&] {
    ask_web_identity(identity, [](const HttpRequest& request) -> std::string {
      throw Error(ErrorCode::unavailable, "HTTP 400: bad " + request.body);
    });
  });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("web identity is refused: HTTP 400"));
  EXPECT_THAT(error->what(), Not(HasSubstr("tok3n")));
  test::expect_error(ErrorCode::unavailable, "there is no web identity token", [&] {
    ask_web_identity({folder_ / "none", "r", "s"}, sts(kAnswer));
  });
  test::expect_error(ErrorCode::unavailable, "returned no credentials",
                     [&] { ask_web_identity(identity, sts("<R/>")); });
}

TEST_F(CredentialSettings, ConcurrentThreads) {
  std::atomic<int> asked{0};
  CredentialChain chain(
      false,
      [&]() -> std::optional<LentCredentials> {
        ++asked;
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        return LentCredentials{{"A", "S", ""}, kNow + 3600};
      },
      "none");
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(chain.get(kNow).access_key, "A"); });
  threads.clear();
  EXPECT_EQ(asked, 1);
}

TEST(S3Endpoint, RegionsOfAwsBuckets) {
  S3Endpoint aws("", "us-east-1");
  const Url url = aws.url_of("b", "k/1");
  EXPECT_EQ(url.whole(), "https://b.s3.us-east-1.amazonaws.com/k/1");
  EXPECT_EQ(aws.region_of(url), "us-east-1");
  const auto there = aws.moved(url, "eu-west-1");
  ASSERT_TRUE(there);
  EXPECT_EQ(there->whole(), "https://b.s3.eu-west-1.amazonaws.com/k/1");
  EXPECT_EQ(aws.region_of(*there), "eu-west-1");
  EXPECT_EQ(aws.url_of("b", "k").host, "b.s3.eu-west-1.amazonaws.com");
  EXPECT_EQ(aws.url_of("other", "k").host, "other.s3.us-east-1.amazonaws.com");
  // Asked there already; and what is no region.
  EXPECT_FALSE(aws.moved(*there, "eu-west-1"));
  for (const char* bad : {"", "x.evil.org", "a/b", "A"}) EXPECT_FALSE(aws.moved(url, bad)) << bad;
  // Another thread that was refused at the same time.
  EXPECT_TRUE(aws.moved(url, "eu-west-1"));
  const Url dotted = aws.url_of("a.b", "k");
  EXPECT_EQ(dotted.whole(), "https://s3.us-east-1.amazonaws.com/a.b/k");
  EXPECT_EQ(aws.moved(dotted, "cn-north-1")->whole(),
            "https://s3.cn-north-1.amazonaws.com.cn/a.b/k");
  EXPECT_EQ(aws.region_of(aws.url_of("a.b", "k")), "cn-north-1");
}

TEST(S3Endpoint, OtherEndpoints) {
  S3Endpoint own("http://minio:9000/base/", "us-east-1");
  const Url url = own.url_of("b", "k");
  EXPECT_EQ(url.whole(), "http://minio:9000/base/b/k");
  const auto there = own.moved(url, "eu-west-1");
  ASSERT_TRUE(there);
  EXPECT_EQ(there->whole(), url.whole());
  EXPECT_EQ(own.region_of(url), "eu-west-1");
  EXPECT_FALSE(own.moved(url, "eu-west-1"));
}

}  // namespace
}  // namespace penstock::http
